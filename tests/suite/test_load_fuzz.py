"""Whatever bytes a file holds, the loader answers with a spec or a SpecError, and in bounded time."""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from layerstate.suite.spec.load import KINDS, load_spec
from layerstate.suite.spec.names import builtin_files
from layerstate.suite.spec.read import read_text
from layerstate.tasks.errors import SpecError

FILE = Path("spec.yaml")
PIECES = (
    *"\n\t\r :-?[]{},#&*!|>'\"%@`\\~=<.0123456789abx",
    *(
        "\n  ",
        ": ",
        "- ",
        "? ",
        "---\n",
        "...\n",
        "!!",
        "<<: ",
        "|\n",
        ">-\n",
        '"\\x',
        '"\\U',
        "\\ud800",
        "\u2028",
        "\x85",
        "é",
    ),
    *(
        "kind: task\n",
        "kind: model\n",
        "name: a\n",
        "null",
        "true",
        "1e9",
        ".nan",
        "0x",
        "0o",
        "%YAML 1.2\n",
        "%TAG ! x\n",
    ),
)


def outcome(data: bytes) -> str:
    try:
        read_text(data, FILE)
    except SpecError as error:
        message = str(error)
        assert message.strip()
        assert all(line.startswith("spec.yaml:") for line in message.splitlines()), message
        return "refused"
    return "read"


@settings(max_examples=400, deadline=None)
@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    outcome(data)


@settings(max_examples=600, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=14).map("".join))
def test_any_pile_of_yaml_pieces_is_read_or_refused(text: str) -> None:
    outcome(text.encode())


@pytest.mark.parametrize("kind", [kind for kind in KINDS if builtin_files(kind)])
def test_any_mutation_of_a_real_spec_is_read_or_refused(kind: str, tmp_path: Path) -> None:
    rng = random.Random(f"mutations of {kind}")
    originals = [path.read_bytes() for path in builtin_files(kind).values()]
    path = tmp_path / "spec.yaml"
    for _ in range(60):
        data = bytearray(rng.choice(originals))
        for _ in range(rng.randint(1, 3)):
            start = rng.randrange(len(data))
            stop = min(len(data), start + rng.choice((0, 1, 1, 5, 40)))
            new = rng.choice(
                (b"", bytes([rng.randrange(256)]), rng.choice(PIECES).encode(), bytes(data[stop : stop + 30]))
            )
            data[start:stop] = new
        path.write_bytes(data)
        with suppress(SpecError):
            load_spec(path)
