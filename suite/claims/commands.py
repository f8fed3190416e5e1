"""The command that would measure what a claim lacks."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from ..protocols import BUILT_IN, load_protocol
from ..spec.names import Kind, builtin_names, is_path
from ..spec.results import SuiteRecord
from ..spec.schema import ClaimsSpec

__all__ = ["Missing", "command"]

Missing = tuple[str, str, str]
"""Model, task and protocol."""


def command(missing: Sequence[Missing], claims: ClaimsSpec, record: SuiteRecord, folder: Path | None) -> str:
    """What would measure what is missing; for a model or task that nobody declared, what to add first.

    Parameters
    ----------
    missing : sequence of Missing
        At least one.
    claims : ClaimsSpec
        The file of the claim.
    record : SuiteRecord
        The suite that it was judged on.
    folder : Path or None
        The run folder.
    """
    tasks = [task for _, task, _ in missing]
    tasks += [other for _, task, protocol in missing for other in _other_tasks(record, protocol, task)]
    wanted: dict[Kind, list[str]] = {
        "model": list(dict.fromkeys(model for model, _, _ in missing)),
        "task": list(dict.fromkeys(tasks)),
        "protocol": list(dict.fromkeys(protocol for _, _, protocol in missing)),
    }
    own: dict[Kind, set[str]] = {kind: set(getattr(record, f"{kind}s")) for kind in wanted}
    for kind, names in wanted.items():
        unknown = [name for name in names if name not in own[kind] and name not in builtin_names(kind)]
        if unknown:
            return f"# add a spec of the {kind} {unknown[0]} first: a YAML file, given as --{kind} {unknown[0]}.yaml"
    files: list[str] = []
    words = ["layerstate", "run", _suite(claims, record, wanted, files)]
    by_name = f"{record.suite['name']}.yaml" in files
    for kind, names in wanted.items():
        for name in names:
            if name not in builtin_names(kind) and not by_name:
                name = f"{name}.yaml"
                files.append(name)
            words += [f"--{kind}", name]
    line = shlex.join([*words, "--out", str(folder) if folder is not None else "DIR"])
    return f"{line}  # {', '.join(files)}: your own file{'s' if len(files) > 1 else ''}" if files else line


def _suite(claims: ClaimsSpec, record: SuiteRecord, wanted: dict[Kind, list[str]], files: list[str]) -> str:
    """The suite to run: the one judged on, unless it is no built-in one and the claims name one that will do."""
    own = str(record.suite["name"])
    if own in builtin_names("suite"):
        return own
    given = "suite" in claims.model_fields_set
    if given and (is_path(claims.suite) or all(set(names) <= {*builtin_names(kind)} for kind, names in wanted.items())):
        return claims.suite
    files.append(f"{own}.yaml")
    return files[-1]


def _other_tasks(record: SuiteRecord, protocol: str, task: str) -> list[str]:
    """The tasks that a protocol needs beside the one that it measures."""
    spec = record.protocols.get(protocol)
    if spec is None or spec["measures"] not in BUILT_IN:
        return []
    code = load_protocol(spec["measures"])
    if code.relations is None:
        return []
    found = code.relations(task, code.params.model_validate(spec["params"])).values()
    return [relation.task for relation in found if relation.task is not None]
