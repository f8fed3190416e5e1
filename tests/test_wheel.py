"""The built wheel is whole: alone in a fresh environment, from another folder, it lists its specs and builds pages."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def run(*command: str | Path, cwd: Path) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run([str(part) for part in command], cwd=cwd, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy of the tracked files so that nothing left over from earlier builds gets in."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    listed = run("git", "ls-files", "--cached", "--others", "--exclude-standard", cwd=ROOT).splitlines()
    for name in listed:
        if (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((ROOT / name).read_bytes())
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", out, source, cwd=out)
    (built,) = out.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment with the wheel; its dependencies are read from this one, layerstate is not."""
    home = tmp_path_factory.mktemp("fresh")
    venv.create(home, with_pip=False)
    python = home / "bin" / "python"
    site = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=home).strip())
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    run(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", wheel, cwd=home)
    return home


def test_every_spec_template_and_data_file_of_the_repository_is_in_the_wheel(wheel: Path) -> None:
    shipped = set(zipfile.ZipFile(wheel).namelist())
    tracked = run("git", "ls-files", "--cached", "--others", "--exclude-standard", cwd=ROOT).splitlines()
    shown = ("specs/", "leaderboard/templates/", "leaderboard/static/", "tasks/", "adapters/", "suite/")
    missing = [name for name in tracked if name.startswith(shown) and f"layerstate/{name}" not in shipped]
    assert not missing
    assert "layerstate/py.typed" in shipped


def test_nothing_but_layerstate_is_put_into_the_import_namespace(wheel: Path) -> None:
    tops = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"layerstate"}


def test_the_installed_command_lists_and_validates_from_another_folder(installed: Path, tmp_path: Path) -> None:
    command = installed / "bin" / "layerstate"
    where = run(
        installed / "bin" / "python", "-c", "import layerstate.suite; print(layerstate.suite.__file__)", cwd=tmp_path
    )
    assert where.startswith(str(installed))
    for kind, name in [("tasks", "dyck"), ("models", "mamba"), ("protocols", "causal"), ("suites", "quick")]:
        assert name in run(command, "list", kind, cwd=tmp_path)
    assert "name: dyck" in run(command, "show", "dyck", cwd=tmp_path)
    assert "parity" in run(command, "plan", "quick", "--out", tmp_path / "runs", cwd=tmp_path)
