"""A model of the user's own that cannot take some of a task's lengths keeps what it shows at the others."""

from __future__ import annotations

import re
from typing import Any

import pytest
from layerstate.suite.runner.store import read_results
from layerstate.suite.spec.results import Metric, Result

from .conftest import USER_CODE

EMBEDDED = "        hidden = self.embed(tokens)\n"
POSITIONS = "        hidden = self.embed(tokens) + self.positions(torch.arange(tokens.shape[1]))\n"


def with_forward(lines: str) -> str:
    """The user's module with another beginning of its forward pass, and ten learned positions."""
    code = USER_CODE.replace("        self.head =", "        self.positions = nn.Embedding(10, 8)\n        self.head =")
    return code.replace(EMBEDDED, lines)


def limited(raised: str, condition: str = "tokens.shape[1] > 8") -> str:
    return with_forward(f"        if {condition}:\n            raise {raised}\n{EMBEDDED}")


def read(workshop: Any) -> dict[str, Result]:
    return {result.protocol: result for result in read_results(workshop.out)}


def at(result: Result, length: int) -> list[Metric]:
    return [metric for metric in result.metrics if metric.at.get("length") == length]


@pytest.mark.parametrize(
    ("code", "said"),
    [(with_forward(POSITIONS), "IndexError: index out of range in self"), (limited("ValueError('8 at most')"), "8 at")],
)
def test_other_lengths_are_kept_and_the_metrics_of_this_one_say_why(workshop: Any, code: str, said: str) -> None:
    mixer = {"pattern": "layers.*", "modes": ["zero"]}
    path = workshop.user_model(code, components={"mixer": mixer})
    workshop.suite(protocols=["behaviour", "ood_ablation", "mixer_attribution"], gate={"at_least": 0.0})
    done = workshop.run("--model", path)
    assert done.exit_code == 0, done.stderr
    found = read(workshop)
    assert set(found) == {"behaviour", "ood_ablation", "mixer_attribution"}
    for result in found.values():
        assert any(metric.value is not None for metric in at(result, 8))
        missing = at(result, 12)
        assert missing
        for metric in missing:
            assert (metric.value, metric.status) == (None, "undefined")
            if metric.metric.startswith(("retrain", "posthoc")) and "length_not_taken" not in str(metric.reason):
                continue
            assert re.match(r"length_not_taken: .*mine\.py:\d+: .* of 12 tokens failed: ", str(metric.reason))
            assert said in str(metric.reason)


def test_a_length_at_which_the_outputs_are_no_numbers_is_not_taken(workshop: Any) -> None:
    code = USER_CODE.replace("return self.head(hidden)", "return self.head(hidden) / (tokens.shape[1] != 12)")
    assert workshop.run("--model", workshop.user_model(code)).exit_code == 0
    result = read(workshop)["behaviour"]
    assert any(metric.value is not None for metric in at(result, 8))
    assert {str(metric.reason) for metric in at(result, 12)} == {
        "length_not_taken: The logits are not finite on evaluate at length 12."
    }


def test_check_names_the_length_the_error_and_the_line(workshop: Any) -> None:
    path = workshop.user_model(limited("ValueError('8 at most')"))
    done = workshop.layerstate("check", path)  # on parity, of 40 tokens
    assert done.exit_code == 1
    assert "Traceback" not in done.stdout + done.stderr
    assert re.search(r"mine\.py:1\d: .* 2 sequences of 40 tokens failed: ValueError: 8 at", done.stderr)
    assert workshop.layerstate("check", path, "--task", workshop.root / "parity8.yaml").exit_code == 0


def test_a_model_that_takes_one_length_alone_is_trained_and_measured_at_it(workshop: Any) -> None:
    path = workshop.user_model(limited("ValueError('8 exactly')", "tokens.shape[1] != 8"))
    assert workshop.run("--model", path).exit_code == 0
    assert all(metric.value is not None for metric in at(read(workshop)["behaviour"], 8))


@pytest.mark.parametrize(("condition", "stage"), [("tokens.shape[1] == 8", "training"), ("self.training", "training")])
def test_an_error_at_the_training_length_fails_the_cell_with_its_line(
    workshop: Any, condition: str, stage: str
) -> None:
    workshop.suite(models=["./mine.yaml", "./tiny.yaml"])
    workshop.user_model(limited("ValueError('not this')", condition))
    assert workshop.run().exit_code == 3
    (failure,) = workshop.failures()
    assert failure["stage"] in {stage, "conformance"}
    assert re.search(r"mine\.py:1\d: .* sequences of 8 tokens failed: ValueError", failure["message"])
    assert [result.cell.model for result in read_results(workshop.out)] == ["tiny"]


def test_a_model_that_ceases_to_take_the_training_length_fails_what_is_measured_next(workshop: Any) -> None:
    """Only what comes after the training is lost: the trained weights are kept, and the message says why."""
    flag = workshop.root / "broken"
    path = workshop.user_model(limited("ValueError('no more')", f"__import__('os').path.exists({str(flag)!r})"))
    assert workshop.run("--model", path).exit_code == 0
    flag.touch()
    workshop.suite(protocols=["behaviour", "probe_profile"])
    assert workshop.run("--model", path).exit_code == 3
    assert len(workshop.cells()) == 1
    assert set(read(workshop)) == {"behaviour"}
    assert "ValueError: no more" in workshop.failures()[0]["message"]


@pytest.mark.parametrize("raised", ["MemoryError()", "RuntimeError('CUDA error: device-side assert triggered')"])
def test_want_of_memory_at_another_length_is_no_refusal(workshop: Any, raised: str) -> None:
    assert workshop.run("--model", workshop.user_model(limited(raised))).exit_code == 3
    assert read(workshop) == {}
    (failure,) = workshop.failures()
    assert (failure["stage"], failure["protocol"]) == ("measuring", "behaviour")
    assert re.match(r"Out of memory\. Use fewer|The CUDA device failed: .*--device cpu", failure["message"])
