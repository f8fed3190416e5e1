"""Built-in task specs as fixtures, read as plain YAML, and slow-and-obvious references for their states."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from layerstate.tasks import Task, load_task
from ruamel.yaml import YAML

SPECS = Path(__file__).parents[2] / "specs" / "tasks"
OFFLINE = sorted(path.stem for path in SPECS.glob("*.yaml") if path.stem != "code_depth")


def read_spec(name: str) -> dict[str, Any]:
    """The spec `name`, with what it extends merged in, mapping by mapping."""
    spec = YAML(typ="safe").load((SPECS / f"{name}.yaml").read_text(encoding="utf-8"))
    base = spec.pop("extends", None)
    return spec if base is None else merged(read_spec(base), spec)


def merged(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    both = [key for key in over if isinstance(base.get(key), dict) and isinstance(over[key], dict)]
    return base | over | {key: merged(base[key], over[key]) for key in both}


@pytest.fixture(scope="session", params=OFFLINE)
def spec(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Each built-in task spec that needs no network."""
    return read_spec(request.param)


@pytest.fixture(scope="session")
def task(spec: dict[str, Any], built: dict[str, Task]) -> Task:
    """The task of `spec`."""
    return built[spec["name"]]


@pytest.fixture(scope="session")
def built() -> dict[str, Task]:
    """All tasks that need no network, by name."""
    specs = [read_spec(name) for name in OFFLINE]
    return {spec["name"]: load_task(spec["family"], spec["params"], spec["target"]) for spec in specs}


@pytest.fixture(scope="session")
def reference(spec: dict[str, Any]) -> Any:
    """Function from one token sequence to its states, written for reading and not for speed."""
    params = spec["params"]
    match spec["family"]:
        case "parity":
            return parity_states
        case "groups":
            elements = group_elements(params)
            return lambda tokens: group_states(tokens, elements, with_sign=params["sign"])
        case "flip_flop":
            return lambda tokens: flip_flop_states(tokens, params["initial"])
        case "dyck":
            return lambda tokens: dyck_states(tokens, params["max_depth"])
        case "code_depth":
            return lambda tokens: code_states(tokens, params)
    raise AssertionError(spec["family"])


def parity_states(tokens: list[int]) -> dict[str, list[int]]:
    return {"parity": [sum(tokens[: t + 1]) % 2 for t in range(len(tokens))]}


def group_elements(params: dict[str, Any]) -> list[tuple[int, ...]]:
    if "elements" in params:
        return [tuple(element) for element in params["elements"]]
    kind, points = params["group"][0], int(params["group"][1:])
    if kind == "z":
        return [tuple((i + turn) % points for i in range(points)) for turn in range(points)]
    everything = list(permutations(range(points)))
    return everything if kind == "s" else [p for p in everything if inversions(p) % 2 == 0]


def inversions(p: tuple[int, ...]) -> int:
    return sum(p[i] > p[j] for i in range(len(p)) for j in range(i + 1, len(p)))


def group_states(tokens: list[int], elements: list[tuple[int, ...]], *, with_sign: bool) -> dict[str, list[int]]:
    number = {element: index for index, element in enumerate(elements)}
    state = elements[0]
    products: list[int] = []
    for token in tokens:
        x = elements[token]
        state = tuple(x[state[i]] for i in range(len(state)))
        products.append(number[state])
    states = {"product": products}
    if with_sign:
        states["sign"] = [inversions(elements[p]) % 2 for p in products]
    return states


def flip_flop_states(tokens: list[int], memory: int) -> dict[str, list[int]]:
    held: list[int] = []
    for token in tokens:
        memory = token - 2 if token >= 2 else memory
        held.append(memory)
    return {"memory": held}


def dyck_states(tokens: list[int], max_depth: int) -> dict[str, list[int]]:
    stack: list[int] = []
    depth: list[int] = []
    top: list[int] = []
    for token in tokens:
        if token % 2 == 0:
            stack.append(token // 2)
        else:
            assert stack.pop() == token // 2, "a closing bracket must match the top"
        assert len(stack) <= max_depth
        depth.append(len(stack))
        top.append(stack[-1] + 1 if stack else 0)
    return {"depth": depth, "top": top}


def code_states(tokens: list[int], params: dict[str, Any]) -> dict[str, list[int]]:
    symbols = ["(", ")", "[", "]", "{", "}", "NEWLINE", "INDENT", "DEDENT"]
    stack: list[str] = []
    indent = 0
    depth: list[int] = []
    indents: list[int] = []
    for token in tokens:
        symbol = symbols[token] if token < len(symbols) else ""
        if symbol in ("(", "[", "{"):
            stack.append(symbol)
        elif symbol in (")", "]", "}"):
            assert stack.pop() + symbol in ("()", "[]", "{}"), "a closing bracket must match the innermost open one"
        elif symbol:
            assert not stack, f"{symbol} inside brackets"
        indent += (symbol == "INDENT") - (symbol == "DEDENT")
        depth.append(min(len(stack), params["max_depth"]))
        indents.append(max(0, min(indent, params["max_indent"])))
    return {"depth": depth, "indent": indents}


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)
