"""Pretrained models from their YAML to their results: refused where they do not fit, resumable, exact."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from layerstate.adapters import build_adapter
from layerstate.suite.runner import train as training_module
from layerstate.suite.runner.curriculum import make_stages
from layerstate.suite.runner.errors import CellFailed
from layerstate.suite.runner.train import train
from layerstate.suite.spec.load import resolve_suite
from layerstate.suite.spec.schema import FineTuning

from tests.adapters.huggingface.conftest import save
from tests.suite.test_train import PARITY, SPEC

MODEL = """\
kind: model
name: small
title: A small checkpoint
adapter: huggingface
checkpoint: {folder: small}
symbols: {parity8: ["0", "1"]}
training: {learning_rate: 0.01, steps: 12, warmup: 3, evaluate_every: 5, batch_size: 8}
"""


@pytest.fixture(scope="session")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(tmp_path_factory.mktemp("saved") / "small", "gpt_neox")


@pytest.fixture
def small(workshop: Any, saved: Path) -> Any:
    """A folder with a checkpoint, its YAML, and a suite of it."""
    shutil.copytree(saved, workshop.root / "small")
    (workshop.root / "small.yaml").write_text(MODEL)
    workshop.suite(models=["./small.yaml"], protocols=["behaviour", "probe_profile", "attention_attribution"])
    return workshop


def rewrite(workshop: Any, old: str, new: str) -> None:
    assert old in MODEL
    (workshop.root / "small.yaml").write_text(MODEL.replace(old, new))


def test_a_checkpoint_is_fine_tuned_and_measured_and_the_board_shows_it(small: Any) -> None:
    done = small.run()
    assert done.exit_code == 0, done.stderr
    results = small.results().values()
    assert {result["specs"]["protocol"]["name"] for result in results} == {
        "behaviour",
        "probe_profile",
        "attention_attribution",
    }
    assert {site for result in results for site in result["sites"]} == {"embed", "block.0", "block.1", "block.2"}
    (cell,) = small.cells().values()
    assert cell["steps"] == 12
    assert "Nothing to do" in small.run().stdout
    built = small.layerstate("leaderboard", "build", small.out, "--out", small.root / "site")
    assert built.exit_code == 0, built.stderr
    page = (small.root / "site" / "models" / "small.html").read_text()
    assert "A small checkpoint" in page


def test_the_same_again_gives_the_same_and_another_checkpoint_another_identity(small: Any) -> None:
    small.run()
    first = small.results()
    small.out = small.root / "again"
    small.run()
    assert small.results() == first
    save(small.root / "small", "gpt_neox", intermediate_size=48)
    (cell,) = small.plan().cells
    assert cell.identity not in small.cells()


def test_identity_of_tokens_and_files(small: Any) -> None:
    def identity() -> str:
        return small.plan().cells[0].identity

    first = identity()
    rewrite(small, '["0", "1"]}', '["0", "1"], dyck: ["(", ")", "[", "]"]}')
    assert identity() == first, "another task's tokens change nothing"
    rewrite(small, '["0", "1"]}', '["1", "0"]}')
    assert identity() != first
    rewrite(small, "parity8", "parity")
    assert identity() == first, "the family's tokens serve a task of the family"
    rewrite(small, "folder: small", "folder: moved")
    (small.root / "small").rename(small.root / "moved")
    assert identity() == first, "where the folder is changes nothing"
    save(small.root / "moved", "gpt_neox", intermediate_size=48)
    assert identity() != first


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('["0", "1"]', '["0", "1", "a"]', "small.yaml:6:20: symbols.parity8: 3 tokens for the 2 symbols 0, 1"),
        (
            "parity8",
            "dyck",
            "small.yaml:6:10: symbols: no tokens for the task `parity8` — one for each of its 2 symbols",
        ),
        ('["0", "1"]', '["0", "0"]', "symbols.parity8: `0` stands twice"),
        ("folder: small", "folder: smal", "small.yaml:5:22: checkpoint.folder: there is no folder"),
        ("{folder: small}", "{repo: a/b}", "`a/b` without a `revision`"),
        ("{folder: small}", "{repo: a/b, folder: small}", "either `repo` and `revision`, or `folder`"),
        ("{folder: small}", "{repo: ../../etc, revision: x}", "checkpoint.repo"),
        ("batch_size: 8", "batch_size: 8, accumulate: 3", "accumulate: 3 parts of a batch of 8 — a divisor would"),
        (
            "batch_size: 8",
            "batch_size: 8, accumulate: 4, per_task: {parity8: {batch_size: 6}}",
            "per_task.parity8: 4 parts of a batch of 6 — a divisor would",
        ),
        ("batch_size: 8", "batch_size: 8, lora: {rank: 2}", "lora: given with `method: full`"),
        ("batch_size: 8", "batch_size: 8, precision: half", "training.precision"),
        ("batch_size: 8", "batch_size: 8, trust_remote_code: true", "unknown key"),
        ("folder: small}", "folder: small}\ntrust_remote_code: true", "trust_remote_code: unknown key"),
    ],
)
def test_what_is_wrong_in_the_yaml_is_found_before_anything_runs(small: Any, old: str, new: str, said: str) -> None:
    rewrite(small, old, new)
    done = small.layerstate("plan", small.root / "suite.yaml", "--out", small.out)
    assert done.exit_code == 1
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('["0", "1"]', '["0", "01"]', "the symbol '01' is 2 tokens"),
        ('["0", "1"]', "[3, 12]", "model's embedding has the tokens 0 to 11"),
        (
            "checkpoint:",
            "sites: {blocks: layer.*}\ncheckpoint:",
            "small.yaml:5:17: sites.blocks: no submodule is called",
        ),
        (
            "batch_size: 8",
            "batch_size: 8, method: lora, lora: {targets: [query]}",
            "training.lora.targets: 'query' is no linear map of the blocks",
        ),
    ],
)
def test_what_does_not_fit_the_checkpoint_is_found_before_training(small: Any, old: str, new: str, said: str) -> None:
    rewrite(small, old, new)
    done = small.run()
    assert done.exit_code == 3
    (failure,) = small.failures()
    assert failure["stage"] == "conformance"
    assert said in failure["message"]
    assert small.cells() == {}
    assert said in small.layerstate("check", small.root / "small.yaml", "--task", small.root / "parity8.yaml").stderr


def test_low_rank_updates_train_and_are_kept(small: Any) -> None:
    rewrite(small, "batch_size: 8", "batch_size: 8, method: lora, lora: {rank: 2}")
    assert small.run("--protocol", "behaviour").exit_code == 0
    (cell,) = small.cells().values()
    whole = build_adapter(
        "huggingface",
        {"checkpoint": {"folder": str(small.root / "small")}, "symbols": [1, 2]},
        vocab_size=2,
        classes=2,
        seed=0,
    )
    assert cell["parameters"] < sum(parameter.numel() for parameter in whole.module.parameters()) / 2


def an_adapter(saved: Path, seed: int = 0) -> Any:
    options = {"checkpoint": {"folder": str(saved)}, "symbols": ["0", "1"]}
    return build_adapter("huggingface", options, vocab_size=2, classes=2, seed=seed)


def tuned(saved: Path, state: Path, *, stop_at: int | None = None, **changes: Any) -> dict[str, torch.Tensor]:
    values = {"learning_rate": 0.01, "steps": 8, "warmup": 2, "evaluate_every": 4, "batch_size": 8} | changes
    training = FineTuning.model_validate(values)
    adapter, steps = an_adapter(saved), []
    try:
        train(
            adapter,
            make_stages(PARITY, SPEC, training, Path()),
            training,
            0,
            state=state,
            on_step=lambda step, *_: steps.append(step),
            should_stop=lambda: stop_at is not None and steps[-1] == stop_at,
            tell=lambda _: None,
        )
    except KeyboardInterrupt:
        return tuned(saved, state, **changes)
    return dict(adapter.module.state_dict())


def test_a_batch_in_parts_is_the_batch(saved: Path, tmp_path: Path) -> None:
    whole, parts = (tuned(saved, tmp_path / str(n), steps=1, accumulate=n) for n in (1, 4))
    assert all(torch.allclose(whole[name], parts[name], atol=1e-5) for name in whole)


@pytest.mark.parametrize("changes", [{"accumulate": 2}, {"method": "lora"}])
def test_training_goes_on_where_it_was_stopped(saved: Path, tmp_path: Path, changes: dict[str, Any]) -> None:
    whole, stopped = (tuned(saved, tmp_path / str(at), stop_at=at, **changes) for at in (None, 3))
    assert all(torch.equal(whole[name], stopped[name]) for name in whole)


def test_half_precision_changes_training_alone(saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training_module, "_cpu_has_bfloat16", lambda: True)
    whole, half = (tuned(saved, tmp_path / kind, precision=kind) for kind in ("float32", "bfloat16"))
    assert {value.dtype for value in half.values()} == {torch.float32}
    assert any(not torch.equal(whole[name], half[name]) for name in whole)
    assert all(torch.allclose(whole[name], half[name], atol=0.1) for name in whole)
    monkeypatch.setattr(training_module, "_cpu_has_bfloat16", lambda: False)
    with pytest.raises(CellFailed, match=r"needs hardware that computes in it, and this cpu does not. Use float32"):
        tuned(saved, tmp_path / "refused", precision="bfloat16")


def test_the_pretrained_suite_plans_every_protocol_without_a_network(monkeypatch: pytest.MonkeyPatch) -> None:
    import socket

    def refused(*_: Any, **__: Any) -> None:
        raise AssertionError("a plan asks nothing of the network")

    monkeypatch.setattr(socket.socket, "connect", refused)
    resolved = resolve_suite("pretrained")
    assert list(resolved.models) == ["mamba-130m", "pythia-160m", "pythia-410m"]
    assert list(resolved.tasks) == ["parity", "s3", "dyck", "code_depth"]
    from layerstate.suite.runner.plan import make_plan
    from layerstate.suite.spec.load import builtin_names

    assert set(resolved.protocols) == set(builtin_names("protocol"))
    assert len(make_plan(resolved).cells) == 3 * 4 * 3


@pytest.mark.parametrize("name", ["mamba-130m", "pythia-160m", "pythia-410m"])
def test_the_built_in_checkpoints_are_pinned_to_a_commit(name: str) -> None:
    checkpoint = resolve_suite("pretrained").models[name].spec.model_dump()["checkpoint"]
    assert len(checkpoint["revision"]) == 40
    assert set(checkpoint["revision"]) <= set("0123456789abcdef")


def test_a_model_without_the_network_says_what_to_do_and_the_others_are_kept(
    small: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import huggingface_hub
    from huggingface_hub import errors

    def offline(*_: Any, **__: Any) -> None:
        raise errors.LocalEntryNotFoundError("no")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", offline)
    (small.root / "far.yaml").write_text(
        MODEL.replace("name: small", "name: far").replace("{folder: small}", "{repo: a/b, revision: c0ffee}")
    )
    small.suite(models=["./far.yaml", "./small.yaml"])
    done = small.run("--protocol", "behaviour")
    assert done.exit_code == 3
    assert "a/b at c0ffee is not (or not wholly) in the cache" in done.stderr
    assert [json.loads(path.read_text())["cell"]["model"] for path in (small.out / "results").glob("*.json")] == [
        "small"
    ]
