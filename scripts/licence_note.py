"""Write tasks/data/code_depth_embedded.md: where the shipped functions come from, read from the file itself.

python scripts/licence_note.py
"""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
from layerstate.tasks.code_data import EMBEDDED_FILE, METADATA_KEY, embedded_functions

FILE = Path(__file__).resolve().parent.parent / "tasks" / "data" / EMBEDDED_FILE
INTRODUCTION = """# Where code_depth_embedded.parquet comes from

The file holds functions of public Python packages as sequences of lexical classes: for each token one of about forty
numbers such as "a name", "an opening bracket" or "the end of a line". It holds no code, no names, no comments and no
other text, and no function can be got back from it. Each package is under a licence that allows copies and changed
versions; its authors hold the copyright of the code. `scripts/make_code_depth_embedded.py` makes the file again from
the wheels on the Python Package Index, pinned by version and SHA-256.
"""


def note() -> str:
    """The text of the note."""
    metadata = json.loads(pq.read_schema(FILE).metadata[METADATA_KEY])
    head = ["package", "version", "licence", "functions", "left out", "sha256 of the wheel"]
    keys = ["name", "version", "licence", "functions", "left_out", "sha256"]
    rows = [[str(package[key]) for key in keys] for package in metadata["packages"]]
    table = "\n".join("| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *rows])
    digest = f"Digest of the functions, as the task spec pins it: `{embedded_functions().digest()}`. "
    return f"{INTRODUCTION}\n{table}\n\n{digest}Tokenised with Python {metadata['python']}.\n"


if __name__ == "__main__":
    target = FILE.with_suffix(".md")
    target.write_text(note(), encoding="utf-8")
    print(target)
