"""Training: deterministic, resumable bit for bit, and clear about what went wrong."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from layerstate.adapters import build_adapter
from layerstate.adapters.base import Adapter
from layerstate.suite.runner.curriculum import Stage, make_stages
from layerstate.suite.runner.errors import CellFailed
from layerstate.suite.runner.threads import one_thread
from layerstate.suite.runner.train import Trained, learning_rate, make_optimizer, train
from layerstate.suite.spec.schema import TaskSpec, Training
from layerstate.tasks import load_task
from torch import nn

SPEC = TaskSpec.model_validate(
    {
        "kind": "task",
        "name": "parity8",
        "title": "Short parity",
        "family": "parity",
        "structure": "prefix_update",
        "target": "parity",
        "states": ["parity"],
        "lengths": {"train": 8, "evaluate": [8]},
    }
)
PARITY = load_task("parity", {}, "parity", Path())


def recipe(**changes: Any) -> Training:
    return Training.model_validate(
        {"learning_rate": 0.01, "steps": 20, "warmup": 3, "evaluate_every": 7, "batch_size": 8} | changes
    )


def an_lstm(seed: int = 0) -> Adapter:
    options = {"architecture": {"type": "lstm", "blocks": 2, "width": 8, "hidden": 8}}
    return build_adapter("reference", options, vocab_size=2, classes=2, seed=seed)


def a_dropout_model(tmp_path: Path) -> Adapter:
    (tmp_path / "m.py").write_text(
        "import torch\nfrom torch import nn\nclass M(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.embed = nn.Embedding(2, 8)\n"
        "        self.norm = nn.BatchNorm1d(8)\n"
        "        self.drop = nn.Dropout(0.5)\n"
        "        self.layers = nn.ModuleList([nn.Linear(8, 8)])\n"
        "        self.unused = nn.Linear(3, 3)\n"
        "        self.head = nn.Linear(8, 2)\n"
        "        self.head2 = self.head\n"
        "    def forward(self, tokens):\n"
        "        h = self.norm(self.embed(tokens).transpose(1, 2)).transpose(1, 2)\n"
        "        return self.head(self.layers[0](self.drop(h)))\n"
        "def build(vocab_size, classes):\n    return M()\n"
    )
    options = {"module": "m.py:build", "sites": {"embed": "embed", "blocks": "layers.*"}}
    return build_adapter("torch_module", options, vocab_size=2, classes=2, seed=0, base=tmp_path)


def trained(
    adapter: Adapter,
    training: Training,
    state: Path,
    *,
    seed: int = 0,
    stages: list[Stage] | None = None,
    stop_at: set[int] | None = None,
    save_every: float = 60.0,
    on_step: Callable[..., None] = lambda *_: None,
    tell: Callable[[str], None] = lambda _: None,
) -> Trained:
    taken = 0

    def stepped(step: int, steps: int, loss: float, accuracy: float | None) -> None:
        nonlocal taken
        taken = step
        on_step(step, steps, loss, accuracy)

    return train(
        adapter,
        stages or [Stage(training.steps, PARITY, 8)],
        training,
        seed,
        state=state,
        on_step=stepped,
        should_stop=lambda: stop_at is not None and taken in stop_at,
        tell=tell,
        save_every=save_every,
    )


def weights(adapter: Adapter) -> dict[str, bytes]:
    return {name: value.numpy().tobytes() for name, value in adapter.module.state_dict().items()}


@pytest.fixture(autouse=True)
def _one_thread() -> Any:
    with one_thread():
        yield


def test_the_learning_rate_rises_falls_and_ends_where_declared() -> None:
    training = recipe(learning_rate=1.0, warmup=10, steps=110, final_share=0.1)
    assert learning_rate(training, 0) == pytest.approx(0.1)
    assert learning_rate(training, 9) == pytest.approx(1.0)
    assert learning_rate(training, 10) == pytest.approx(1.0)
    assert learning_rate(training, 60) == pytest.approx(0.55)
    assert learning_rate(training, 110) == pytest.approx(0.1)
    rates = [learning_rate(training, step) for step in range(110)]
    assert rates[10:] == sorted(rates[10:], reverse=True)
    assert {learning_rate(recipe(schedule="constant", learning_rate=0.5), step) for step in range(3, 20)} == {0.5}
    assert learning_rate(recipe(warmup=0), 0) == pytest.approx(0.01)


def test_decay_acts_on_matrices_only() -> None:
    module = nn.Sequential(nn.Embedding(2, 4), nn.LayerNorm(4), nn.Linear(4, 2))
    module[2].weight._no_weight_decay = True
    groups = make_optimizer(module, recipe(weight_decay=0.3)).param_groups
    decay = {id(parameter): group["weight_decay"] for group in groups for parameter in group["params"]}
    assert decay[id(module[0].weight)] == 0.3
    assert decay[id(module[1].weight)] == decay[id(module[2].bias)] == decay[id(module[2].weight)] == 0.0


def test_a_model_without_parameters_to_train_is_an_error_in_words() -> None:
    with pytest.raises(CellFailed, match="no trainable parameters"):
        make_optimizer(nn.ReLU(), recipe())


def test_the_same_seed_gives_the_same_bits_whatever_the_process_did_before(tmp_path: Path) -> None:
    first, second = an_lstm(), an_lstm()
    a = trained(first, recipe(), tmp_path / "a")
    torch.manual_seed(12345)
    torch.rand(7)
    b = trained(second, recipe(), tmp_path / "b")
    assert weights(first) == weights(second)
    assert a.curve == b.curve


def test_another_seed_gives_other_data(tmp_path: Path) -> None:
    a = trained(an_lstm(), recipe(), tmp_path / "a", seed=0)
    b = trained(an_lstm(), recipe(), tmp_path / "b", seed=1)
    assert a.curve.loss != b.curve.loss


def test_training_leaves_torchs_generator_and_threads_as_they_were(tmp_path: Path) -> None:
    torch.set_num_threads(2)
    before = torch.get_rng_state()
    with one_thread():
        assert torch.get_num_threads() == 1
        trained(an_lstm(), recipe(steps=3), tmp_path / "a")
    assert torch.get_num_threads() == 2
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("model", ["lstm", "dropout, batch norm, tied and unused weights"])
def test_interrupted_and_resumed_equals_uninterrupted_bit_for_bit(tmp_path: Path, model: str) -> None:
    def build() -> Adapter:
        return an_lstm() if model == "lstm" else a_dropout_model(tmp_path)

    straight = build()
    expected = trained(straight, recipe(), tmp_path / "straight")
    for stop in (1, 4, 7, 13):
        with pytest.raises(KeyboardInterrupt):
            trained(build(), recipe(), tmp_path / "broken", stop_at={stop})
    resumed = build()
    found = trained(resumed, recipe(), tmp_path / "broken")
    assert weights(resumed) == weights(straight)
    assert found.curve == expected.curve
    assert (found.steps, found.stopped_early) == (expected.steps, expected.stopped_early)


def test_a_state_saved_on_the_way_changes_nothing(tmp_path: Path) -> None:
    plain, saving = an_lstm(), an_lstm()
    expected = trained(plain, recipe(), tmp_path / "a")
    found = trained(saving, recipe(), tmp_path / "b", save_every=0.0)
    assert (tmp_path / "b").exists()
    assert not (tmp_path / "a").exists()
    assert weights(plain) == weights(saving)
    assert found.curve == expected.curve


def test_resuming_takes_only_the_steps_that_are_left(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        trained(an_lstm(), recipe(), tmp_path / "s", stop_at={15})
    steps: list[int] = []
    trained(an_lstm(), recipe(), tmp_path / "s", on_step=lambda step, *_: steps.append(step))
    assert steps == [16, 17, 18, 19, 20]


@pytest.mark.parametrize("damage", ["empty", "truncated", "garbage", "of another model"])
def test_a_damaged_state_is_set_aside_and_training_starts_again(tmp_path: Path, damage: str) -> None:
    straight = an_lstm()
    trained(straight, recipe(), tmp_path / "straight")
    state = tmp_path / "state.safetensors"
    if damage == "of another model":
        with pytest.raises(KeyboardInterrupt):
            trained(a_dropout_model(tmp_path), recipe(), state, stop_at={4})
    else:
        with pytest.raises(KeyboardInterrupt):
            trained(an_lstm(), recipe(), state, stop_at={4})
        data = state.read_bytes()
        state.write_bytes({"empty": b"", "truncated": data[: len(data) // 2], "garbage": b"x" * 200}[damage])
    said: list[str] = []
    again = an_lstm()
    trained(again, recipe(), state, tell=said.append)
    assert weights(again) == weights(straight)
    assert (tmp_path / "state.safetensors.corrupt-1").exists()
    assert len(said) == 1


def test_the_curve_has_an_entry_each_evaluation_and_one_at_the_end(tmp_path: Path) -> None:
    losses: list[float] = []
    found = trained(an_lstm(), recipe(), tmp_path / "s", on_step=lambda _s, _n, loss, _a: losses.append(loss))
    assert found.curve.step == [7, 14, 20]
    assert found.curve.loss[0] == pytest.approx(sum(losses[:7]) / 7)
    assert found.curve.loss[2] == pytest.approx(sum(losses[14:]) / 6)
    assert all(0 <= accuracy <= 1 for accuracy in found.curve.accuracy)


def test_it_stops_once_the_accuracy_was_reached_often_enough_running(tmp_path: Path) -> None:
    training = recipe(steps=50, evaluate_every=2, stop_at_accuracy=0.0, stop_after=3)
    found = trained(an_lstm(), training, tmp_path / "s")
    assert (found.steps, found.stopped_early) == (6, True)
    never = trained(an_lstm(), recipe(stop_at_accuracy=None), tmp_path / "n")
    assert (never.steps, never.stopped_early) == (20, False)


def test_it_learns(tmp_path: Path) -> None:
    options = {"architecture": {"type": "gru", "blocks": 1, "width": 16, "hidden": 16}}
    adapter = build_adapter("reference", options, vocab_size=2, classes=2, seed=0)
    training = recipe(steps=400, learning_rate=0.02, batch_size=32, evaluate_every=50)
    assert trained(adapter, training, tmp_path / "s").curve.accuracy[-1] > 0.99


def test_a_loss_that_is_not_finite_names_the_step_and_the_learning_rate(tmp_path: Path) -> None:
    adapter = an_lstm()
    with torch.no_grad():
        next(adapter.module.parameters()).fill_(math.nan)
    with pytest.raises(CellFailed, match=r"loss became nan at step 1 of 20 \(learning rate 0.0033\)"):
        trained(adapter, recipe(), tmp_path / "s")


def test_a_learning_rate_that_explodes_is_said_so(tmp_path: Path) -> None:
    training = recipe(learning_rate=100.0, clip=None, weight_decay=10.0, warmup=0, steps=200)
    with pytest.raises(CellFailed, match=r"(loss became|not finite).*learning rate"):
        trained(an_lstm(), training, tmp_path / "s")


def test_the_curriculum_gives_each_stage_its_data_and_ends_with_the_task() -> None:
    training = recipe(
        steps=100,
        curriculum=[{"until": 0.25, "length": 4}, {"until": 0.5, "params": {"probability_of_one": 0.1}}],
    )
    stages = make_stages(PARITY, SPEC, training, Path())
    assert [(stage.until, stage.length) for stage in stages] == [(25, 4), (50, 8), (100, 8)]
    assert stages[0].task is stages[2].task is PARITY
    assert stages[1].task is not PARITY


def test_a_stage_with_other_tokens_is_refused() -> None:
    spec = SPEC.model_copy(update={"family": "dyck", "target": "depth", "params": {"bracket_types": 2, "max_depth": 4}})
    dyck = load_task("dyck", spec.params, "depth", Path())
    training = recipe(curriculum=[{"until": 0.5, "params": {"bracket_types": 3}}])
    with pytest.raises(CellFailed, match=r"stage 1 .* other tokens or classes"):
        make_stages(dyck, spec, training, Path())


def test_resuming_inside_a_curriculum_gives_the_same_bits(tmp_path: Path) -> None:
    training = recipe(curriculum=[{"until": 0.5, "length": 4}])
    stages = make_stages(PARITY, SPEC, training, Path())
    straight, resumed = an_lstm(), an_lstm()
    trained(straight, training, tmp_path / "a", stages=stages)
    with pytest.raises(KeyboardInterrupt):
        trained(an_lstm(), training, tmp_path / "b", stages=stages, stop_at={9})
    trained(resumed, training, tmp_path / "b", stages=stages)
    assert weights(straight) == weights(resumed)
