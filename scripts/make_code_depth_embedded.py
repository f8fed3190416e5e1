"""Make tasks/data/code_depth_embedded.parquet: lexical classes of the functions of pinned public Python packages.

    python scripts/make_code_depth_embedded.py [--out FILE] [--wheels FOLDER]

Downloads the wheels (or takes them from FOLDER), checks their SHA-256, tokenises every outermost function outside test
folders, and writes one row a function: no code text. Prints what it kept and the digest that specs pin as `sha256`.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import platform
import subprocess
import sys
import tempfile
import warnings
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from layerstate.tasks.code_data import EMBEDDED_FILE, METADATA_KEY, Functions
from layerstate.tasks.lexical import CLASSES, lexical_classes
from numpy.typing import NDArray

MIN_TOKENS, MAX_TOKENS = 40, 2000
"""Shorter functions hold no window of the training length; longer ones would weigh too much."""

MAX_FUNCTIONS = 15_000
"""Most functions of one package, so that none of them makes up most of the data."""


@dataclass(frozen=True)
class Package:
    """A wheel on the Python Package Index."""

    name: str
    version: str
    licence: str
    sha256: str


PACKAGES = (
    Package("attrs", "26.1.0", "MIT", "c647aa4a12dfbad9333ca4e71fe62ddc36f4e63b2d260a37a8b83d2f043ac309"),
    Package("bokeh", "3.9.2", "BSD-3-Clause", "448e07d5ee78231f5bdece3be020024bb98696c0d6b127e0e2df0b8ba8fa9765"),
    Package("click", "8.5.1", "BSD-3-Clause", "8bb5376d2006950386f8c6427613334a2acadc5f559cb80e638d00b4df957e37"),
    Package("dask", "2026.8.0", "BSD-3-Clause", "ccc0c83a189b0398602435189771d28dad7b5773b6089bb8dce14ae732dd782c"),
    Package(
        "distributed", "2026.8.0", "BSD-3-Clause", "3bd8882861a2cf497453f28c6b61135fa8ef2bb1d6885ad3b9f27e887e9c0e01"
    ),
    Package("django", "5.2.19", "BSD-3-Clause", "5965d974a5218a2b68a11dd1276434707f23886525c23f0598eccedaf4f4ca00"),
    Package("flask", "3.1.3", "BSD-3-Clause", "f4bcbefc124291925f1a26446da31a5178f9483862233b23c0c96a20701f670c"),
    Package("jinja2", "3.1.6", "BSD-3-Clause", "85ece4451f492d0c13c5dd7c13a64681a86afae63a5f347908daf103ce6d2f67"),
    Package("networkx", "3.6.1", "BSD-3-Clause", "d47fbf302e7d9cbbb9e2555a0d267983d2aa476bac30e90dfbe5669bd57f3762"),
    Package("nltk", "3.10.4", "Apache-2.0", "769ba5413f265b7d3e87cd163cc28efa01e29eeef8bb6080bc907949d9fcfb51"),
    Package("pytest", "9.2.0", "MIT", "07acdcf88ec174f907dc01af70bf52d49b014bbab03faeeade31c96b18c2e588"),
    Package("requests", "2.34.2", "Apache-2.0", "2a0d60c172f83ac6ab31e4554906c0f3b3588d37b5cb939b1c061f4907e278e0"),
    Package("rich", "15.0.0", "MIT", "33bd4ef74232fb73fe9279a257718407f169c09b78a87ad3d296f548e27de0bb"),
    Package("scrapy", "2.19.0", "BSD-3-Clause", "44c1ad4b008f1976e946c75b2adce0e448cbfe470c584b1b59469abf270e8013"),
    Package("sphinx", "9.0.4", "BSD-2-Clause", "5bebc595a5e943ea248b99c13814c1c5e10b3ece718976824ffa7959ff95fffb"),
    Package("sympy", "1.14.0", "BSD-3-Clause", "e091cc3e99d2141a0ba2847328f5479b05d94a6635cb96148ccb3f34671bd8f5"),
    Package("twisted", "26.10.0", "MIT", "3732f42af218925a0fe78d6668db55853f7fb532245a89a2669babe7d3000fa8"),
    Package("werkzeug", "3.1.9", "BSD-3-Clause", "6392e50c78460ba618e5b21f08a71f59c99ce99cdc6cf6e3dd7e6ccca8754fab"),
    Package("xarray", "2026.9.0", "Apache-2.0", "fe349fa871628b1a0a5217af3fe1283a2862d5485156e6eda354fffb81c3bb7c"),
)


def main() -> None:
    """Parse the command line and write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = Path(__file__).resolve().parent.parent / "tasks" / "data" / EMBEDDED_FILE
    parser.add_argument("--out", type=Path, default=default, help="the Parquet file to write")
    parser.add_argument("--wheels", type=Path, help="a folder that holds the wheels already")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.wheels or download(Path(temporary))
        write(options.out, folder)


def download(folder: Path) -> Path:
    """Put the pinned wheels into `folder`."""
    pins = [f"{package.name}=={package.version}" for package in PACKAGES]
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
    subprocess.run([*command, "--dest", str(folder), *pins], check=True)
    return folder


def write(out: Path, folder: Path) -> None:
    """Tokenise the wheels in `folder` and write `out`."""
    names: list[str] = []
    rows: list[bytes] = []
    about: list[dict[str, str | int]] = []
    seen: set[bytes] = set()
    for package in PACKAGES:
        functions, left_out = functions_of(wheel_of(package, folder))
        kept = selected(functions, seen)
        names += [package.name] * len(kept)
        rows += kept
        facts = {"functions": len(kept), "left_out": left_out}
        about.append({**vars(package), **facts})
        print(f"{package.name} {package.version}: {len(kept)} functions, {left_out} do not tokenise")
    metadata = {"vocabulary": CLASSES, "packages": about, "python": platform.python_version()}
    columns = {"package": pa.array(names).dictionary_encode(), "classes": pa.array(rows, pa.binary())}
    table = pa.table(columns).replace_schema_metadata({METADATA_KEY: json.dumps(metadata)})
    pq.write_table(table, out, compression="zstd", compression_level=19, use_dictionary=["package"])
    lengths = np.array([len(row) for row in rows], dtype=np.int64)
    digest = Functions(np.frombuffer(b"".join(rows), np.uint8), lengths, 0).digest()
    print(f"{out}: {len(rows)} functions, {lengths.sum()} tokens, {out.stat().st_size} bytes\nsha256: {digest}")


def wheel_of(package: Package, folder: Path) -> Path:
    """The wheel of `package` in `folder`, once its SHA-256 is right."""
    wheels = list(folder.glob(f"{package.name}-{package.version}-*.whl"))
    if len(wheels) != 1:
        raise SystemExit(f"{folder} holds {len(wheels)} wheels of {package.name} {package.version}, not one")
    found = hashlib.sha256(wheels[0].read_bytes()).hexdigest()
    if found != package.sha256:
        raise SystemExit(f"{wheels[0]} has the SHA-256 {found}, not {package.sha256}")
    return wheels[0]


def functions_of(wheel: Path) -> tuple[list[NDArray[np.uint8]], int]:
    """Classes of every function in `wheel`, in order of path and line, and how many do not tokenise."""
    found: list[NDArray[np.uint8]] = []
    left_out = 0
    with zipfile.ZipFile(wheel) as archive:
        for path in sorted(archive.namelist()):
            if not path.endswith(".py") or is_test(path):
                continue
            for text in function_texts(archive.read(path)):
                classes = lexical_classes(text)
                if classes is None:
                    left_out += 1
                else:
                    found.append(classes)
    return found, left_out


def is_test(path: str) -> bool:
    """Whether `path` is in a test folder: such functions are long lists of like lines."""
    parts = path.lower().split("/")
    return any(part in {"test", "tests", "testing"} for part in parts[:-1]) or parts[-1].startswith("test_")


def function_texts(source: bytes) -> Iterator[str]:
    """Text of each outermost function and method of a module, from `def` on; nothing for one that does not parse."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return
    # Columns of the tree count bytes of UTF-8, and its lines end at \n only.
    lines = source.replace(b"\r\n", b"\n").split(b"\n")
    for node in outermost_functions(tree):
        first, last = node.lineno - 1, node.end_lineno or node.lineno
        text = b"\n".join([lines[first][node.col_offset :], *lines[first + 1 : last]])
        yield text.decode("utf-8", errors="replace")


def outermost_functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Functions that are in no other function."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node
        else:
            yield from outermost_functions(node)


def selected(functions: list[NDArray[np.uint8]], seen: set[bytes]) -> list[bytes]:
    """Functions of the right size, each sequence once; if too many, those with the smallest hashes, in their order."""
    fitting: list[bytes] = []
    for function in functions:
        row = function.tobytes()
        if MIN_TOKENS <= len(row) <= MAX_TOKENS and row not in seen:
            seen.add(row)
            fitting.append(row)
    chosen = set(sorted(fitting, key=lambda row: hashlib.sha256(row).digest())[:MAX_FUNCTIONS])
    return [row for row in fitting if row in chosen]


if __name__ == "__main__":
    main()
