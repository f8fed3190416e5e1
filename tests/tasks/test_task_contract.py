"""What every built-in task must do: shapes, labels, the same bytes everywhere, valid corruptions."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from layerstate.tasks import SPLITS, Batch, Task, TaskError, digest, draw

# Of 100 sequences of length 40 and of 120: digest(draw(task, "evaluate", 100, length, seed=0)).
DIGESTS = {
    "a5": (
        "860790c2bfacc739ab0a69243544c1307d0e50fea01566f1827b9bf60e2a64db",
        "ce33bb8d0676e42e240c170469c67142a69099214f613e14a7d5cedf36606d5f",
    ),
    "code_depth_embedded": (
        "b2c42fa5290b31771b4c6aac0a0f383f5ba1760e23ef7e5abb0d833a2ed37063",
        "bcc1f5e0d91d746e0586c6281e083b7d48707e8fe752b443fb1b38d24064c16d",
    ),
    "dyck": (
        "74a64a407e2a88b9162a63225c039f4dbcb2b4650e9aff15913fef2bd96464a5",
        "1f926ddc36a656fa0d276d6724d69e29ee148f75980425d38cd5fe3f2d82b8c5",
    ),
    "dyck1": (
        "1f7a8127807ed22c436ad7160da8ccd8bf15129d1ea22951ab19f34ffadc9df4",
        "c5c5eb70665dfe9c6a8359dfebe076f800cf8a0d284d54bed972ec636821d59a",
    ),
    "dyck8": (
        "751f5c74bda8806c3ceae982589df66549216b7334202dc1d28735122761392f",
        "877b836062251a28b5af4347160c00d352b2f6132e7b16fe04f602650919c777",
    ),
    "flip_flop": (
        "b4f73b50ac81e9956d81fa23bd09be73510843063bd93990a6559671847dad5a",
        "5ca39f55f7229814804dcad274c77e98961f4f00b16ceba53eaf954edee90d21",
    ),
    "parity": (
        "986a2d667168c87d4c38b309883d7f8bbc9fb8679132f236f9ec39469474c858",
        "16b2d2b580738cd746fa781a273e0e1323e773897054d009c8d9c40ba642fa9d",
    ),
    "parity_sparse": (
        "aa2a13dd92b2c334e14eadae487735fec5d9aa8e8538eec153c4d7b15ecd7ba3",
        "a6410b38ef0d9973e95c98c2820488b210a71670fe9a721527d0e31e871d2b8c",
    ),
    "s3": (
        "540e528af7061b5662e2a7e46a393ae3a175c998e8b8c7e17c1f9fee128ed50a",
        "6dfd149e32b878e984603030239f7e6bb25941d993df1d865aeb673c8e2db302",
    ),
    "s4": (
        "93da59364ec71a44d9ee62a0ceb0aa819354950be5793b52c0fee85339e4bef8",
        "23ca2ae65d153fda3cb7c50919f2de3647190bde2470cd3e8593696ffed877df",
    ),
    "s5": (
        "0742903d8235c2224fc3d99ea6bf4b268c5dfcb05e17eb5da5c6b7e3f3c90478",
        "89579abd736feaca51526ce63ac992c913a660c335ce7b4b9be0479e4b83fc23",
    ),
    "z3": (
        "4728a2a6369addb3563bc03861d0a3b0b5be4b597eb3df8bec273361f2f160a1",
        "2dcbe52f9984b0c9a89bd4fca0d13838a6e9404fbeb226d8bb1f2415a2764bd8",
    ),
    "z60": (
        "efe131dcf3f3afbdac57a23c548226535682d3b691f52e375cd439f6dd89b331",
        "f4e8e4e3681f027de1cc0dc39990f4aa5fab4edd0a119f85429e3e84145bd547",
    ),
}


def check_labels(batch: Batch, reference: Any) -> None:
    for row, tokens in enumerate(batch.tokens.tolist()):
        for name, expected in reference(tokens).items():
            if name in batch.states:
                assert batch.states[name][row].tolist() == expected, (name, tokens)


def test_a_task_has_what_the_contract_says(task: Task, spec: dict[str, Any]) -> None:
    assert isinstance(task, Task)
    assert (task.family, task.target) == (spec["family"], spec["target"])
    assert isinstance(task.version, int)
    assert set(spec["states"]) <= set(task.classes)
    assert len(set(task.vocabulary)) == len(task.vocabulary)


@pytest.mark.parametrize(("n", "length"), [(1, 1), (3, 40), (17, 120)])
def test_a_sample_has_exactly_the_asked_shape(task: Task, n: int, length: int, rng: np.random.Generator) -> None:
    batch = task.sample(n, length, rng)
    assert len(batch) == n
    assert set(batch.states) == set(task.classes)
    for values in (batch.tokens, *batch.states.values()):
        assert values.shape == (n, length)
        assert values.dtype == np.int64
        assert values.flags.c_contiguous
    assert batch.tokens.min() >= 0
    assert batch.tokens.max() < len(task.vocabulary)
    for name, classes in task.classes.items():
        assert batch.states[name].min() >= 0
        assert batch.states[name].max() < classes


def test_each_label_includes_its_own_token(task: Task, reference: Any, rng: np.random.Generator) -> None:
    check_labels(task.sample(60, 120, rng), reference)


def test_asking_for_nothing_is_an_error(task: Task, rng: np.random.Generator) -> None:
    for n, length in ((0, 5), (5, 0), (-1, 5)):
        with pytest.raises(TaskError, match="at least 1"):
            task.sample(n, length, rng)


@pytest.mark.parametrize("position", [1, 2, 19, 20, 39])
def test_a_corruption_is_valid_and_has_another_target(
    task: Task, reference: Any, position: int, rng: np.random.Generator
) -> None:
    batch = task.sample(300, 40, rng)
    corrupted = task.corrupt(batch, position, rng)
    check_labels(corrupted, reference)
    assert (corrupted.states[task.target][:, position] != batch.states[task.target][:, position]).all()


def test_a_corruption_changes_no_label_before_the_first_changed_token(task: Task, rng: np.random.Generator) -> None:
    batch = task.sample(300, 40, rng)
    corrupted = task.corrupt(batch, 20, rng)
    same_so_far = np.logical_and.accumulate(corrupted.tokens == batch.tokens, axis=1)
    for name in task.classes:
        assert (corrupted.states[name] == batch.states[name])[same_so_far].all()
    if task.family != "dyck":
        assert same_so_far[:, :20].all()


def test_a_corruption_leaves_the_batch_alone(task: Task, rng: np.random.Generator) -> None:
    batch = task.sample(20, 40, rng)
    before = digest(batch)
    task.corrupt(batch, 20, rng)
    assert digest(batch) == before


def test_a_position_outside_the_sequence_is_an_error(task: Task, rng: np.random.Generator) -> None:
    batch = task.sample(2, 10, rng)
    for position in (-1, 10):
        with pytest.raises(TaskError, match="outside sequences of length 10"):
            task.corrupt(batch, position, rng)


def test_digests_are_pinned(task: Task, spec: dict[str, Any]) -> None:
    found = tuple(digest(draw(task, "evaluate", 100, length, seed=0)) for length in (40, 120))
    assert found == DIGESTS[spec["name"]]


def test_splits_share_no_sequence(task: Task) -> None:
    for length in (12, 40):
        rows = [{tuple(row) for row in draw(task, split, 60, length, seed=3).tokens.tolist()} for split in SPLITS]
        assert len(set().union(*rows)) == sum(map(len, rows))


def test_a_fresh_process_gives_the_same_bytes() -> None:
    code = (
        "from layerstate.tasks import *\n"
        "for family, target in (('parity', 'parity'), ('dyck', 'depth'), ('flip_flop', 'memory')):\n"
        "    print(digest(draw(load_task(family, {}, target), 'train', 64, 40, seed=(1, 2))))\n"
        "import sys; print(sorted({'torch', 'pyarrow', 'datasets', 'numba', 'pydantic'} & set(sys.modules)))\n"
    )
    runs = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment).stdout
        for environment in ({"PYTHONHASHSEED": "1"}, {"PYTHONHASHSEED": "2"})
    ]
    assert runs[0] == runs[1]
    assert runs[0].splitlines()[-1] == "[]", "importing tasks must import no heavy package"
