"""Strict YAML: what a scalar means, what is refused, and that every refusal names its line and column."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from layerstate.suite.spec import read
from layerstate.suite.spec.nodes import plain
from layerstate.suite.spec.read import MAX_BYTES, read_head, read_node, read_text
from layerstate.tasks.errors import SpecError

FILE = Path("spec.yaml")


def values(text: str) -> dict[str, object]:
    return plain(read_text(text.encode(), FILE))


def errors(text: str | bytes) -> list[str]:
    with pytest.raises(SpecError) as caught:
        read_text(text.encode() if isinstance(text, str) else text, FILE)
    return str(caught.value).splitlines()


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("no", "no"),
        ("yes", "yes"),
        ("on", "on"),
        ("Off", "Off"),
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("1e-4", 1e-4),
        ("1E5", 1e5),
        ("1.", 1.0),
        (".5", 0.5),
        ("-3", -3),
        ("+3", 3),
        ("0", 0),
        ("0o17", 15),
        ("0xff", 255),
        ("1_000", "1_000"),
        ("2024-01-01", "2024-01-01"),
        ("12:30:45", "12:30:45"),
        ("1.2.3", "1.2.3"),
        ('"1"', "1"),
        ("'true'", "true"),
        ("٣", "٣"),
        ("9223372036854775807", 2**63 - 1),
    ],
)
def test_a_scalar_means_what_yaml_1_2_says(written: str, meant: object) -> None:
    value = values(f"key: {written}")["key"]
    assert value == meant
    assert type(value) is type(meant)


@pytest.mark.parametrize(
    ("text", "place", "says"),
    [
        ("a: 1\nb: 2\na: 3", "3:1", "`a` stands twice, first on line 1"),
        ("a: {b: 1, b: 2}", "1:11", "`b` stands twice"),
        ("a: !!python/object/apply:os.system [x]", "1:4", "tag"),
        ("a: !foo x", "1:4", "tag `!foo`"),
        ("a: ! x", "1:4", "tag"),
        ("a: &x 1", "1:4", "anchor `&x`"),
        ("a: &x {b: 1}\nc: *x", "2:4", "alias `*x`"),
        ("<<: {a: 1}", "1:1", "merge key"),
        ("a: 1\n---\nb: 2", "2:1", "second document"),
        ("%YAML 1.1\n---\na: 1", "2:1", "directive"),
        ("a:\n\tb: 1", "2:1", "tab"),
        ("a: 1\0", "1:5", "U+0000"),
        ("a: \x1b[31m", "1:4", "U+001B"),
        ('a: "\\ud800"', "1:4", "U+D800"),
        ('a: "x\\0"', "1:4", "U+0000"),
        ('a: "x\\u2028y"', "1:4", "U+2028"),
        ('a: "x\\u202ey"', "1:4", "U+202E"),
        ('a: "x\\u2066y"', "1:4", "U+2066"),
        (b"a: 1\nb: caf\xe9", "2:7", "not UTF-8"),
        (b"\xef\xbb\xbfa: 1", "1:1", "byte order mark"),
        ("a: 1".encode("utf-16"), "1:1", "UTF-16"),
        ("", "1:1", "empty"),
        ("# only a comment\n", "1:1", "empty"),
        ("- a", "1:1", "top level is a list"),
        ("a", "1:1", "top level is the text `a`"),
        ("3: a", "1:1", "number 3 as a key"),
        ("true: a", "1:1", "true as a key"),
        (": a", "1:1", "as a key"),
        ("[a]: b", "1:1", "as a key"),
        ("? {a: b}\n: c", "1:3", "as a key"),
        ("a: .nan", "1:4", "finite"),
        ("a: -.inf", "1:4", "finite"),
        ("a: 1e999", "1:4", "too large"),
        ("a: 1e-999", "1:4", "too small"),
        ("a: " + "9" * 5000, "1:4", "too large"),
        ("a: 9223372036854775808", "1:4", "too large"),
        ("a: 0x" + "f" * 5000, "1:4", "too large"),
        ("a: 017", "1:4", "leading zero"),
        ("a: b: c", "1:5", "put a text with `: ` in quotes"),
        ("a: [1, 2", "1:9", "bracket"),
        ('a: "b', "1:6", "quote"),
        ("a: @b", "1:4", "in quotes"),
        ("a: *.b", "1:4", "in quotes"),
        ("*: b", "1:1", "in quotes"),
        ("a: 1\n  b: 2", "2:4", "indent"),
        ("a: " + "[" * 200, "1:35", "32 levels deep"),
        ("\n".join(" " * depth + "a:" for depth in range(100)), "33:33", "32 levels deep"),
        ("a: [" + "[]," * 20_000, "1:25000", "a line over 25000 characters"),
        ("a:\n" + "- [,,]\n" * 20_000, "20000:1", "more than 20000 lines"),
    ],
)
def test_what_no_spec_needs_is_refused_at_its_place(text: str | bytes, place: str, says: str) -> None:
    found = errors(text)
    assert any(line.startswith(f"spec.yaml:{place}: ") and says in line for line in found), found


def test_more_values_than_any_spec_needs_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read, "MAX_VALUES", 100)
    assert errors("a:\n" + "- 1\n" * 101) == ["spec.yaml:102:3: more than 100 values — no spec needs that"]


def test_all_errors_of_a_file_come_at_once_in_order() -> None:
    found = errors("a: !x 1\nb: .nan\na: 2\nc: &d 1\n")
    assert [line.split(":")[1] for line in found] == ["1", "2", "3", "4"]


def test_an_alias_bomb_is_refused_without_being_expanded() -> None:
    bomb = "a0: &a0 [x, x]\n" + "".join(f"a{n + 1}: &a{n + 1} [{', '.join([f'*a{n}'] * 9)}]\n" for n in range(30))
    assert len(errors(bomb)) == 31 + 30 * 9


def test_an_error_is_one_line_whatever_the_key(tmp_path: Path) -> None:
    """A key with a Unicode line separator (U+2028) once broke its error in two."""
    assert errors('"a\u2028b": &x 1\n') == [
        "spec.yaml:1:1: the text holds the character U+2028 — use printable characters",
        "spec.yaml:1:8: a\\u2028b: the anchor `&x` — write the value where it is needed",
    ]


def test_marks_are_those_of_keys_and_values() -> None:
    root = read_text(b"a:\n  b: [10, 20]\n", FILE)
    node = root.nearest(("a", "b", 1))
    assert (node.value, node.mark.line, node.mark.column) == (20, 2, 11)
    key = root.nearest(("a", "b")).key
    assert (key.line, key.column) == (2, 3)
    assert node.path == ("a", "b", 1)


def test_a_file_over_one_mebibyte_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "big.yaml"
    with path.open("wb") as stream:
        stream.truncate(MAX_BYTES + 1)
    with pytest.raises(SpecError, match="1 MiB"):
        read_node(path)


def test_a_folder_a_pipe_and_a_missing_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="this is a folder"):
        read_node(tmp_path)
    pipe = tmp_path / "pipe.yaml"
    os.mkfifo(pipe)
    with pytest.raises(SpecError, match="not a regular file"):
        read_node(pipe)
    (tmp_path / "mamba.yaml").write_text("a: 1")
    with pytest.raises(SpecError, match=r"there is no file .*manba\.yaml.* did you mean .*mamba\.yaml"):
        read_node(tmp_path / "manba.yaml")
    with pytest.raises(SpecError, match="there is no folder"):
        read_node(tmp_path / "nowhere" / "a.yaml")
    with pytest.raises(SpecError, match="cannot be read"):
        read_node(tmp_path / ("a" * 300 + ".yaml"))
    loop = tmp_path / "loop.yaml"
    loop.symlink_to(loop)
    with pytest.raises(SpecError, match="cannot be read"):
        read_node(loop)


def test_a_symlink_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("a: 1")
    (tmp_path / "b.yaml").symlink_to(tmp_path / "a.yaml")
    assert plain(read_node(tmp_path / "b.yaml")) == {"a": 1}


def test_a_heading_is_read_no_further_than_needed(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("name: a\nsub: {title: not this}\ntitle: A\nthe rest is [not YAML\n")
    assert {key: node.value for key, node in read_head(path, frozenset({"name", "title"})).items()} == {
        "name": "a",
        "title": "A",
    }
