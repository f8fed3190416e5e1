"""A protocol's code is found by name, by entry point or by path, and what is wrong with it is said in one message."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
from layerstate.suite.protocols import BUILT_IN, load_protocol, registry
from layerstate.tasks.errors import SpecError

CODE = """
from dataclasses import dataclass
from layerstate.suite.protocols import Outcome, Params as Base, Reading

VERSION = 3
MECHANISTIC = False

class Params(Base):
    times: int = 2

@dataclass
class Note:
    text: str

def measure(cell, params):
    return Outcome([Reading("answer", float(21 * params.times))])
"""


NEEDED = {"component_attribution": {"component": "conv1d"}}
"""Parameters without which a protocol means nothing."""


@pytest.mark.parametrize("name", BUILT_IN)
def test_built_in_protocols_have_their_four_parts(name: str) -> None:
    code = load_protocol(name)
    assert code.version >= 1
    assert code.mechanistic == (name != "behaviour")
    assert code.source_digest is None
    assert code.params.model_validate(NEEDED.get(name, {})) is not None


def test_finding_a_protocol_and_checking_its_parameters_imports_no_torch() -> None:
    program = (
        "import sys\n"
        "from layerstate.suite.protocols import BUILT_IN, load_protocol\n"
        f"for name in BUILT_IN: load_protocol(name).params.model_validate({NEEDED}.get(name, {{}}))\n"
        "heavy = {'torch', 'sklearn', 'scipy'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_file_beside_the_yaml_is_a_protocol(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(CODE)
    code = load_protocol("mine.py", tmp_path)
    assert (code.version, code.mechanistic) == (3, False)
    no_cell: Any = None
    assert code.measure(no_cell, code.params.model_validate({"times": 4})).readings[0].value == 84.0
    assert code.source_digest is not None
    (tmp_path / "mine.py").write_text(CODE.replace("VERSION = 3", "VERSION = 4"))
    changed = load_protocol("mine.py", tmp_path)
    assert changed.version == 4
    assert changed.source_digest != code.source_digest


@pytest.mark.parametrize(
    ("found", "instead", "message"),
    [
        ("VERSION = 3", "", "has no VERSION"),
        ("VERSION = 3", "VERSION = True", "VERSION must be a whole number"),
        ("MECHANISTIC = False", "MECHANISTIC = 0", "MECHANISTIC must be True or False"),
        ("class Params(Base)", "class Params", "Params must be a subclass"),
        ("def measure", "def measures", "has no measure"),
        ("VERSION = 3", "import no_such_module", "importing the protocol failed: ModuleNotFoundError"),
        ("VERSION = 3", "VERSION = = 3", "importing the protocol failed: SyntaxError"),
        ("VERSION = 3", "raise SystemExit(5)", "importing the protocol failed: SystemExit"),
    ],
)
def test_what_a_file_lacks_is_said(tmp_path: Path, found: str, instead: str, message: str) -> None:
    (tmp_path / "mine.py").write_text(CODE.replace(found, instead))
    with pytest.raises(SpecError, match=message) as error:
        load_protocol("mine.py", tmp_path)
    assert "mine.py" in str(error.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(CODE)
    with pytest.raises(SpecError, match=r"no protocol file .*miney\.py; did you mean 'mine\.py'"):
        load_protocol("miney.py", tmp_path)


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(SpecError, match="did you mean 'causal'"):
        load_protocol("casual")
    with pytest.raises(SpecError, match=r"there are behaviour, causal, component_attribution, .*probe_profile"):
        load_protocol("xyz")


def test_installed_protocols_are_found_and_two_of_one_name_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "installed_protocol.py").write_text(CODE)
    monkeypatch.syspath_prepend(tmp_path)
    point = EntryPoint("mine", "installed_protocol", registry.ENTRY_POINT_GROUP)
    monkeypatch.setattr(registry, "entry_points", lambda group: (point,))
    code = load_protocol("mine")
    assert code.version == 3
    assert code.source_digest is not None
    monkeypatch.setattr(registry, "entry_points", lambda group: (point, EntryPoint("mine", "other", group)))
    with pytest.raises(SpecError, match="two installed packages"):
        load_protocol("mine")
