"""Tasks as data sets: what `datasets` reads is what the generator draws, and a folder is whole or not there at all."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from layerstate.suite.runner import export as exporting
from layerstate.suite.spec.load import load_spec, validate_deep
from layerstate.suite.spec.source import task_of
from layerstate.tasks import Batch, SpecError, digest, draw, load_task

datasets = pytest.importorskip("datasets")
SMALL = ("--train", "40", "--n", "20")

USER_FAMILY = """
import numpy as np
from layerstate.tasks import Batch


class Last:
    family, version, vocabulary, classes = "last", 1, ("a|b", "`"), {"last": 2}

    def __init__(self, target):
        self.target = target

    def sample(self, n, length, rng):
        return self.label(rng.integers(0, 2, (n, length)))

    def label(self, tokens):
        return Batch(tokens, {"last": tokens.copy()})

    def corrupt(self, batch, position, rng):
        tokens = batch.tokens.copy()
        tokens[:, position] ^= 1
        return self.label(tokens)


def build(params, target):
    return Last(target)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "layerstate-data"


def exported(workshop: Any, folder: Path, *arguments: object) -> Any:
    done = workshop.layerstate("data", "export", *arguments, "--to", folder)
    assert done.exit_code == 0, done.stderr
    return done


def own_task(workshop: Any) -> Path:
    (workshop.root / "own.py").write_text(USER_FAMILY)
    return workshop.spec(
        "last",
        json.loads((workshop.root / "parity8.yaml").read_text()),
        name="last",
        family="own.py:build",
        target="last",
        states=["last"],
    )


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


# what is in it


def test_load_dataset_gives_the_bytes_of_the_generator(workshop: Any, folder: Path) -> None:
    exported(workshop, folder, "s3", "dyck", "code_depth_embedded", *SMALL)
    code = (
        "import datasets, hashlib, json, numpy as np\n"
        "from layerstate.tasks import Batch, digest\n"
        "found = {}\n"
        "for name in ('s3', 'dyck', 'code_depth_embedded'):\n"
        f"    data = datasets.load_dataset({str(folder)!r}, name, cache_dir={str(folder.parent / 'cache')!r})\n"
        "    for split, rows in data.items():\n"
        "        columns = {key: np.array(rows[key]) for key in rows.features}\n"
        "        found[f'{name}/{split}'] = digest(Batch(columns.pop('tokens'), columns))\n"
        "print(json.dumps(found))\n"
    )
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    expected: dict[str, str] = {}
    for name in ("s3", "dyck", "code_depth_embedded"):
        spec = load_spec(Path(folder / "specs" / f"{name}.yaml")).spec
        task = load_task(spec.family, spec.params, spec.target)  # type: ignore[union-attr]
        for split, n in (("train", 40), ("validation", 500)):
            expected[f"{name}/{split}"] = digest(draw(task, split, n, 40, seed=0))
        for length in (40, 60, 80, 100, 120):
            for split in ("probe_train", "probe_test", "evaluate"):
                expected[f"{name}/{split}_{length}"] = digest(draw(task, split, 20, length, seed=0))
    assert found == expected


def test_tokens_and_values_have_their_names(workshop: Any, folder: Path) -> None:
    exported(workshop, folder, "dyck", *SMALL)
    data = datasets.load_dataset(str(folder), "dyck", split="evaluate_60", cache_dir=str(folder.parent / "cache"))
    assert data.features["tokens"].feature.names == ["(", ")", "[", "]"]
    assert data.features["top"].feature.names == ["empty", "(", "["]
    assert data.features["depth"].feature.num_classes == 11


def test_the_card_says_what_where_from_and_how_to_make_it_again(workshop: Any, folder: Path) -> None:
    done = exported(workshop, folder, "parity", "code_depth_embedded", *SMALL)
    from huggingface_hub import DatasetCard

    card = DatasetCard.load(folder / "README.md")
    assert [entry["config_name"] for entry in card.data.configs] == ["parity", "code_depth_embedded"]
    assert card.data.license == ["apache-2.0", "bsd-2-clause", "bsd-3-clause", "mit"]
    for part in ("`even`, `odd`", "(target)", "django 5.2.19", "arXiv:2606.00926", "## Cite", "with replacement"):
        assert part in card.text
    for line in done.stdout.splitlines():
        if line.startswith(("parity ", "code_depth_embedded ")):
            assert line.split()[-1] in card.text
    command = next(line for line in card.text.splitlines() if line.startswith("layerstate data export"))
    assert command == (
        "layerstate data export specs/parity.yaml specs/code_depth_embedded.yaml --train 40 --n 20 --to copy"
    )


def test_the_command_of_the_card_makes_the_same_bytes(workshop: Any, folder: Path, monkeypatch: Any) -> None:
    exported(workshop, folder, "s3", own_task(workshop), *SMALL)
    monkeypatch.chdir(folder)
    (command,) = [
        line for line in (folder / "README.md").read_text().splitlines() if line.startswith("layerstate data e")
    ]
    assert workshop.layerstate(*command.split()[1:]).exit_code == 0
    copy = files_of(folder / "copy")
    assert copy == {name: data for name, data in files_of(folder).items() if not name.startswith("copy/")}


def test_a_suite_s_lengths_and_sizes_can_be_taken(workshop: Any, folder: Path) -> None:
    exported(workshop, folder, "dyck", "--suite", "quick", "--train", "40")
    assert sorted(path.name for path in (folder / "dyck").iterdir()) == [
        *(
            f"{split}-{length}.parquet"
            for split in ("evaluate", "probe_test", "probe_train")
            for length in (12, 18, 24)
        ),
        *("train-12.parquet", "validation-12.parquet"),
    ]


def test_a_family_of_ones_own_goes_along(workshop: Any, folder: Path) -> None:
    exported(workshop, folder, own_task(workshop), *SMALL)
    (workshop.root / "own.py").unlink()
    done = workshop.layerstate("data", "digest", folder / "specs" / "last_dataset.yaml")
    assert done.exit_code == 0, done.stderr
    assert "`a\\|b`" in (folder / "README.md").read_text()


# the folder


def test_the_same_again_is_fine_and_another_content_only_with_force(workshop: Any, folder: Path) -> None:
    exported(workshop, folder, "parity", *SMALL)
    before = files_of(folder)
    assert "Already there, with this content" in exported(workshop, folder, "parity", *SMALL).stdout
    refused = workshop.layerstate("data", "export", "parity", "--train", "41", "--n", "20", "--to", folder)
    assert refused.exit_code == 2
    assert "parity/train-40.parquet differs" in refused.stderr
    assert "--force" in refused.stderr
    assert files_of(folder) == before
    assert "Replaced" in exported(workshop, folder, "z3", *SMALL, "--force").stdout
    assert not (folder / "parity").exists()
    assert [path.name for path in folder.parent.iterdir() if "layerstate-data" in path.name] == ["layerstate-data"]


def test_what_is_no_export_is_never_replaced(workshop: Any, folder: Path) -> None:
    folder.mkdir()
    exported(workshop, folder, "parity", *SMALL)  # an empty folder is
    (folder / "README.md").write_text("my notes")
    done = workshop.layerstate("data", "export", "parity", *SMALL, "--to", folder, "--force")
    assert done.exit_code == 2
    assert "is no export" in done.stderr
    assert (folder / "README.md").read_text() == "my notes"


def test_a_folder_that_is_a_file_or_cannot_be_written_is_an_error(workshop: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        done = workshop.layerstate("data", "export", "parity", *SMALL, "--to", place)
        assert done.exit_code == 2
        assert "a file" in done.stderr
        assert "--to" in done.stderr


@pytest.mark.parametrize(
    ("number", "said"), [(errno.ENOSPC, "is full. Free some space"), (errno.EACCES, "choose another --to")]
)
def test_a_full_disk_or_missing_permission_leaves_nothing_behind(
    workshop: Any, folder: Path, monkeypatch: pytest.MonkeyPatch, number: int, said: str
) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(number, os.strerror(number))

    before = sorted(folder.parent.iterdir())
    monkeypatch.setattr(exporting, "_write_part", refuse)
    done = workshop.layerstate("data", "export", "parity", *SMALL, "--to", folder)
    assert done.exit_code == 2
    assert said in done.stderr
    assert sorted(folder.parent.iterdir()) == before


def test_an_export_that_is_killed_is_never_taken_for_a_whole_one(
    workshop: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = (
        "import os\n"
        "from layerstate.suite.runner import export\n"
        "export.card_text = lambda *_: os.kill(os.getpid(), 9)\n"
        "from layerstate.suite.cli import main\n"
        f"main(['data', 'export', 'parity', '--train', '9', '--n', '9', '--to', {str(folder)!r}])\n"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == -9
    assert not folder.exists()
    (left,) = [path for path in folder.parent.iterdir() if path.name.startswith(".layerstate-data.tmp-")]
    exported(workshop, folder, "parity", *SMALL)
    os.utime(left, (0, 0))
    exported(workshop, folder, "parity", *SMALL)
    assert not left.exists(), "what a killed export left is removed by a later one"


# usage


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["parityy", "--to", "d"], 1, "did you mean `parity`?"),
        (["parity"], 2, "--to DIR and --push USER/NAME"),
        (["parity", "--to", ""], 2, "the path is empty"),
        (["parity", "--to", "d", "--private"], 2, "--private belongs to --push"),
        (["parity", "--to", "d", "--n", "0"], 2, "--n"),
    ],
)
def test_wrong_usage_is_said(workshop: Any, monkeypatch: Any, arguments: list[str], code: int, said: str) -> None:
    monkeypatch.chdir(workshop.root)
    before = sorted(workshop.root.iterdir())
    done = workshop.layerstate("data", "export", *arguments)
    assert done.exit_code == code
    assert said in done.stderr
    assert sorted(workshop.root.iterdir()) == before


def test_two_tasks_of_one_name_cannot_be_in_one_data_set(workshop: Any, folder: Path) -> None:
    other = workshop.spec("parity", json.loads((workshop.root / "parity8.yaml").read_text()), name="parity")
    done = workshop.layerstate("data", "export", "parity", other, "--to", folder)
    assert done.exit_code == 1
    assert "two tasks have the name 'parity'" in done.stderr


@pytest.mark.parametrize("package", ["datasets", "huggingface_hub"])
def test_without_the_extra_the_error_says_what_to_install(
    workshop: Any, folder: Path, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    done = workshop.layerstate("data", "export", "parity", "--to", folder)
    assert done.exit_code == 1
    assert "pip install 'layerstate[hf]'" in done.stderr
    assert not folder.exists()


# read again by layerstate


def test_measuring_data_that_are_read_have_the_generator_s_digests(workshop: Any, folder: Path) -> None:
    exported(workshop, folder, workshop.root / "parity8.yaml", "--train", "50")
    rows = [
        workshop.layerstate("data", "digest", path).stdout.splitlines()[2:]
        for path in (workshop.root / "parity8.yaml", folder / "specs" / "parity8_dataset.yaml")
    ]
    assert [line.split()[1:] for line in rows[0]] == [line.split()[1:] for line in rows[1]]
    done = workshop.layerstate("data", "download", folder / "specs" / "parity8_dataset.yaml")
    assert load_spec(folder / "specs" / "parity8_dataset.yaml").spec.sha256 in done.stdout  # type: ignore[union-attr]


def test_a_suite_trains_and_measures_on_a_data_set(workshop: Any, folder: Path) -> None:
    exported(workshop, folder, workshop.root / "parity8.yaml", "--train", "50")
    workshop.model(training={"curriculum": [{"until": 0.5, "length": 5}]})
    workshop.suite(tasks=["./parity8.yaml", "./layerstate-data/specs/parity8_dataset.yaml"])
    done = workshop.run()
    assert done.exit_code == 0, done.stderr
    drawn, read = sorted(workshop.results().values(), key=lambda result: len(result["specs"]["task"]["name"]))
    assert read["digests"] == drawn["digests"], "the measuring data are the same bytes"
    assert read["cell"] != drawn["cell"], "the training is not"
    assert read["specs"]["task"]["sha256"] in (folder / "README.md").read_text()
    assert "source" not in drawn["specs"]["task"]


def reading(workshop: Any, folder: Path, **change: Any) -> Path:
    """A spec of one's own that builds on another and reads the data set."""
    (spec,) = workshop.root.glob("*/specs/parity8_dataset.yaml")
    stored = load_spec(spec).spec
    values = {"kind": "task", "name": "mine", "extends": "./parity8.yaml", "source": "dataset", "config": "parity8"}
    values |= {"path": "./layerstate-data", "sha256": stored.sha256}  # type: ignore[union-attr]
    path = workshop.root / "mine.yaml"
    path.write_text(json.dumps({key: value for key, value in (values | change).items() if value is not None}))
    return path


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"sha256": None}, "source: `dataset` without `sha256` — the digest that its card gives would be right"),
        ({"path": None}, "source: `dataset` without `path`"),
        ({"source": None}, "path: belongs to a data set — with it, `source: dataset` would be right"),
        ({"sha256": "abc"}, "sha256: the text `abc` — 64 hexadecimal digits"),
        ({"revision": "a b"}, "revision: the text `a b` — a commit, branch or tag would be right"),
        ({"source": "data"}, "source: the text `data` — "),
        ({"path": "./layerstate"}, "path: the folder .*layerstate is not there"),
        ({"config": "parity"}, "config: .* holds no task 'parity' .did you mean 'parity8'"),
        (
            {"lengths": {"train": 8, "evaluate": [8, 16]}},
            "lengths.evaluate: .*no probe_train sequences of length 16, only",
        ),
    ],
)
def test_a_spec_that_does_not_fit_its_data_set_is_refused_at_its_place(
    workshop: Any, folder: Path, change: dict[str, Any], said: str
) -> None:
    exported(workshop, folder, workshop.root / "parity8.yaml", "--train", "50")
    with pytest.raises(SpecError, match=rf"mine\.yaml:1:\d+: {said}"):
        validate_deep(load_spec(reading(workshop, folder, **change)))


def test_a_path_is_relative_to_the_file_that_it_stands_in(workshop: Any, folder: Path) -> None:
    exported(workshop, folder, workshop.root / "parity8.yaml", "--train", "50")
    reading(workshop, folder)
    child = workshop.root / "below" / "child.yaml"
    child.parent.mkdir()
    child.write_text("kind: task\nname: child\nextends: ../mine.yaml\n")
    located = validate_deep(load_spec(child))
    assert draw(task_of(located), "evaluate", 50, 12, seed=0).tokens.shape == (50, 12)
    child.write_text("kind: task\nname: child\nextends: ../hub.yaml\n")
    reading(workshop, folder, path="user/name", revision="abc").rename(workshop.root / "hub.yaml")
    assert load_spec(child).spec.path == "user/name"  # type: ignore[union-attr]


def test_a_wrong_label_in_a_data_set_is_refused_with_its_place(workshop: Any, folder: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    exported(workshop, folder, workshop.root / "parity8.yaml", "--train", "50")
    path = folder / "parity8" / "evaluate-12.parquet"
    columns = pq.read_table(path).to_pydict()
    columns["parity"][4][9] ^= 1
    pq.write_table(pa.table(columns), path)
    done = workshop.layerstate("data", "digest", folder / "specs" / "parity8_dataset.yaml")
    assert done.exit_code == 1
    assert "evaluate-12.parquet: sequence 4, position 9: parity is" in done.stderr


def test_the_content_of_a_data_set_is_in_the_identity_and_its_place_is_not(workshop: Any, folder: Path) -> None:
    exported(workshop, folder, workshop.root / "parity8.yaml", "--train", "50")
    workshop.suite(tasks=["./mine.yaml"])

    def cell(**change: Any) -> str:
        reading(workshop, folder, **change)
        (found,) = workshop.plan().cells
        return found.identity

    first = cell()
    folder.rename(folder.with_name("elsewhere"))
    assert cell(path="./elsewhere") == first
    assert cell(path="user/name", revision="main") == first
    assert cell(path="./elsewhere", sha256="ab" * 32) != first
    workshop.task(name="mine")
    workshop.suite()
    (drawn,) = workshop.plan().cells
    assert drawn.identity != first


def test_a_data_set_on_the_hub_is_fetched_at_its_revision(
    workshop: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import huggingface_hub

    exported(workshop, folder, workshop.root / "parity8.yaml", "--train", "50")
    asked: list[Any] = []

    def snapshot(self: Any, repo_id: str, **options: Any) -> str:
        asked.append((repo_id, options["repo_type"], options["revision"], options["allow_patterns"]))
        return str(folder)

    monkeypatch.setattr(huggingface_hub.HfApi, "snapshot_download", snapshot)
    located = validate_deep(load_spec(reading(workshop, folder, path="user/name", revision="v1")))
    assert asked == [], "checking a spec needs no network"
    batch = draw(task_of(located), "evaluate", 50, 12, seed=0)
    assert asked == [("user/name", "dataset", "v1", ["parity8/*.parquet"])]
    assert isinstance(batch, Batch)
    assert np.array_equal(batch.tokens, draw(load_task("parity", {}, "parity"), "evaluate", 50, 12, seed=0).tokens)


def test_what_is_read_from_a_data_set_is_not_exported_again(workshop: Any, folder: Path) -> None:
    exported(workshop, folder, workshop.root / "parity8.yaml", "--train", "50")
    done = workshop.layerstate("data", "export", folder / "specs" / "parity8_dataset.yaml", "--to", folder / "again")
    assert done.exit_code == 1
    assert "is read from a data set" in done.stderr


def test_a_curriculum_that_changes_parameters_needs_the_generator(workshop: Any, folder: Path) -> None:
    exported(workshop, folder, workshop.root / "parity8.yaml", "--train", "50")
    reading(workshop, folder)
    workshop.model(training={"curriculum": [{"until": 0.5, "params": {"probability_of_one": 0.1}}]})
    workshop.suite(tasks=["./mine.yaml"])
    done = workshop.run()
    assert done.exit_code == 3
    assert "changes parameters (probability_of_one), but its sequences are read from a data set" in done.stderr
