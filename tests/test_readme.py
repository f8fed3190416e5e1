"""What the README tells a newcomer to type works, in the order in which it stands there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from .pages import Page, run_command

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGE = Page(README)
# The quick suite in the README takes minutes; here one cell of it, with the same words, takes seconds.
ONE_CELL = ["--task", "parity", "--model", "lstm"]


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that the README shows, and the specs it names."""
    folder = tmp_path_factory.mktemp("newcomer")
    for name, text in PAGE.files.items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "specs").symlink_to(ROOT / "specs")
    return folder


def shortened(command: str) -> list[str]:
    words = shlex.split(command)
    if words[1:3] == ["run", "quick"]:
        return words + (ONE_CELL[:2] if "--model" in words else ONE_CELL)
    return words


def test_the_readme_shows_commands_and_files() -> None:
    assert len(PAGE.commands) >= 9
    assert set(PAGE.files) == {"my_model.py", "my_model.yaml"}


def test_every_command_of_the_readme_works_in_order(desk: Path) -> None:
    for command in PAGE.commands:
        run_command(shortened(command), desk)
    assert (desk / "site" / "index.html").is_file()
    assert "My LSTM stack" in (desk / "site" / "index.html").read_text(encoding="utf-8")


def test_make_has_the_two_commands_and_ci_calls_one() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert re.search(r"^quickstart:", makefile, re.MULTILINE)
    assert re.search(r"^test:", makefile, re.MULTILINE)
    assert "make test" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def test_every_folder_and_file_that_the_readme_names_is_there() -> None:
    named = re.findall(r"^\| `([\w/]+/)` \|", README, re.MULTILINE) + re.findall(r"\]\((?!http)([^)]+)\)", README)
    assert named
    assert not [name for name in named if not (ROOT / name).exists()]
