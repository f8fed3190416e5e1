"""The guide to models of one's own works as it stands: its files and commands, here with few training steps."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from layerstate.suite.runner.store import read_results

from .pages import Page, run_command

ROOT = Path(__file__).resolve().parent.parent
PAGE = Page((ROOT / "docs" / "own-models.md").read_text(encoding="utf-8"))
MODELS = ("lstm_stack", "diagonal", "encoder")
STEPS = "steps: 600"


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that the guide shows, every word as it stands but the number of training steps."""
    folder = tmp_path_factory.mktemp("own_models")
    for name, text in PAGE.files.items():
        assert text.count(STEPS) == name.endswith(".yaml")
        (folder / name).write_text(text.replace(STEPS, "steps: 20"), encoding="utf-8")
    return folder


def test_the_guide_shows_three_models_each_checked_and_run() -> None:
    assert set(PAGE.files) == {f"{model}{suffix}" for model in MODELS for suffix in (".py", ".yaml")}
    for model in MODELS:
        assert f"layerstate check {model}.yaml" in PAGE.commands
        assert f"layerstate run {model}.yaml --out runs/mine" in PAGE.commands


def test_every_command_of_the_guide_works_in_order(desk: Path) -> None:
    for command in PAGE.commands:
        words = shlex.split(command)
        said = run_command([*words, *(["--task", "parity"] if words[1] == "run" else [])], desk)
        if words[1] == "check":
            assert f"{Path(words[2]).stem} conforms" in said
        if "diagonal" in command and words[1] == "check":
            assert {"conv1d.zero", "conv1d.bypass"} <= set(said.split())
        if "encoder" in command and words[1] == "check":
            assert {"attention.zero", "mlp.zero"} <= set(said.split())
    results = read_results(desk / "runs" / "mine")
    assert {result.cell.model for result in results} == set(MODELS)
    taken_out = {
        (result.cell.model, metric.at["mode"], metric.value is not None)
        for result in results
        for metric in result.metrics
        if (result.protocol, metric.metric) == ("conv1d_attribution", "posthoc_effect")
    }
    assert {entry for entry in taken_out if entry[0] == "diagonal"} >= {("diagonal", "bypass", True)}
    assert not any(measured for model, _, measured in taken_out if model != "diagonal")
    board = (desk / "site" / "index.html").read_text(encoding="utf-8")
    assert all(title in board for title in ("A stack of LSTMs", "A diagonal state space", "A Transformer of torch.nn"))


def test_the_readme_leads_to_the_guide() -> None:
    assert "(docs/own-models.md)" in (ROOT / "README.md").read_text(encoding="utf-8")
