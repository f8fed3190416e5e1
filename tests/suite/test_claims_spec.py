"""Claims files: what they may say, and the commands that read them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from layerstate.suite.spec.load import find_spec
from layerstate.suite.spec.schema import ClaimsSpec

EXPECT = {"metric": "causal.gap", "at": {"ruler": "means", "fill": "mean"}, "at_least": 1.0}
CLAIM: dict[str, Any] = {"id": "one", "says": "Something.", "source": {"paper": "mine"}, "expect": EXPECT}
PAPER = (
    *("behaviour-recurrent-ood", "behaviour-dyck-order", "behaviour-s3-order", "parity-late-recurrent"),
    *("parity-gradual-transformer", "s3-late-recurrent", "s3-gradual-transformer", "dyck-early-transformer"),
    *("dyck-gradual-recurrent", "reversal", "grouping", "conv1d-s3", "conv1d-parity", "conv1d-dyck"),
    *("formal-necessity", "ood-necessity", "pythia-dyck-bottleneck", "pythia410-plateau", "mamba130-no-direction"),
    *("mamba130-patching", "refit-reversal"),
)


def claims_file(folder: Path, *claims: dict[str, Any], **more: Any) -> Path:
    path = folder / "claims.yaml"
    spec = {"kind": "claims", "name": "mine", "title": "Mine", "claims": list(claims or [CLAIM]), **more}
    path.write_text(json.dumps(spec, indent=1))
    return path


def without(*names: str, **more: Any) -> dict[str, Any]:
    """The expectation with some keys left out and others added, in a claim."""
    return CLAIM | {"expect": {key: value for key, value in EXPECT.items() if key not in names} | more}


WRONG: dict[str, tuple[list[dict[str, Any]], str]] = {
    "unknown metric": ([without("metric", metric="causal.gapp")], r"no metric `gapp` — did you mean `gap`"),
    "unknown protocol": ([without("metric", metric="casual.gap")], r"no protocol `casual` — did you mean `causal`"),
    "metric without protocol": ([without("metric", metric="gap")], r"no protocol `gap`"),
    "two comparisons": ([without(at_most=2.0)], r"at_least and at_most"),
    "no comparison": ([without("at_least")], r"no comparison"),
    "one id twice": ([CLAIM, CLAIM], r"two claims with the id `one`"),
    "replaced by none": ([CLAIM | {"replaced_by": "two"}], r"`two`, which is not a claim here"),
    "over alone": ([without(over="site")], r"`over` without `reduce`"),
    "word reduced as a number": ([without("at_least", over="site", reduce="max", equals="yes")], r"every or some"),
    "number reduced as a word": ([without(over="site", reduce="some")], r"max, min or mean"),
    "models beside an order": ([without("at_least", order=[["a"], ["b"]], model="a")], r"leave `model` out"),
    "wrong control": ([CLAIM | {"beside": {"metric": "causal.refit"}}], r"no metric `refit`"),
    "misspelt key": ([CLAIM | {"require_skill": 0.2}], r"required_skill"),
    "not a number": ([without(at_least=float("nan"))], r"NaN|finite|number"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_said_with_its_place_before_anything_is_judged(workshop: Any, case: str) -> None:
    claims, said = WRONG[case]
    path = claims_file(workshop.root, *claims)
    done = workshop.layerstate("validate", path)
    assert done.exit_code == 1
    assert re.search(rf"claims\.yaml:\d+:\d+: .*({said})", done.stdout), done.stdout
    workshop.out.mkdir()
    judging = workshop.layerstate("claims", workshop.out, "--claims", path)
    assert judging.exit_code == 1
    assert re.search(said, judging.stderr)
    assert "Traceback" not in judging.stderr


def test_the_paper_is_declared_whole() -> None:
    spec = find_spec("claims", "jiang2026").spec
    assert isinstance(spec, ClaimsSpec)
    by_id = {claim.id: claim for claim in spec.claims}
    assert list(by_id) == list(PAPER)
    assert all("arXiv:2606.00926v" in claim.source["paper"] and claim.source["place"] for claim in spec.claims)
    withdrawn = [claim for claim in spec.claims if claim.status == "withdrawn"]
    assert [(claim.id, claim.replaced_by) for claim in withdrawn] == [("formal-necessity", "refit-reversal")]
    figures = {name: claim.source["figure"] for name, claim in by_id.items() if "figure" in claim.source}
    assert figures["conv1d-s3"].endswith("12.64 pp")
    assert by_id["conv1d-s3"].expect.equals == -12.64
    assert by_id["conv1d-parity"].expect.equals == -6.83
    assert by_id["mamba130-no-direction"].expect.at_most == 0.2
    # The last block's recovery at the patched position is 1 by construction: the claim that rests on it says so.
    assert by_id["mamba130-patching"].expect.at["trivial"] == "true"


def test_list_and_show_name_the_claims(workshop: Any) -> None:
    listed = workshop.layerstate("list", "claims")
    assert listed.exit_code == 0
    assert "jiang2026" in listed.stdout
    shown = workshop.layerstate("show", "jiang2026")
    assert shown.exit_code == 0
    assert re.findall(r"\bid: ([a-z0-9-]+)", shown.stdout) == list(PAPER)


def test_a_folder_without_a_run_says_how_to_make_one(workshop: Any) -> None:
    workshop.out.mkdir()
    done = workshop.layerstate("claims", workshop.out)
    assert done.exit_code == 1
    assert "layerstate run" in done.stderr
    assert "Traceback" not in done.stderr


def test_claims_of_ones_own_over_a_protocol_of_ones_own(workshop: Any) -> None:
    protocol = workshop.protocol()
    metric = next(iter(json.loads(protocol.read_text())["metrics"]))
    name = json.loads(protocol.read_text())["name"]
    workshop.suite(protocols=["behaviour", "./mine_protocol.yaml"])
    assert workshop.run().exit_code == 0
    behaves = {"metric": "behaviour.accuracy", "at": {"length": "$train"}, "at_least": 0.0}
    impossible = {"metric": "behaviour.accuracy", "at": {"length": "$train"}, "at_least": 1.5}
    absent = {"metric": "behaviour.accuracy", "model": "lstm", "at": {"length": "$train"}, "at_least": 0.5}
    path = claims_file(
        workshop.root,
        CLAIM | {"id": "behaves", "expect": behaves},
        CLAIM | {"id": "impossible", "expect": impossible, "status": "withdrawn", "replaced_by": "behaves"},
        CLAIM | {"id": "absent", "expect": absent},
        CLAIM | {"id": "own", "expect": {"metric": f"{name}.{metric}", "at_least": -1e9}},
        CLAIM | {"id": "foreign", "expect": absent | {"model": "somebody"}},
        CLAIM | {"id": "elsewhere", "expect": behaves | {"at": {"length": 60}}},
        protocols=["./mine_protocol.yaml"],
        models=["somebody"],
    )
    table = workshop.layerstate("claims", workshop.out, "--claims", path)
    assert table.exit_code == 0, table.stderr
    assert re.search(r"impossible \(withdrawn\)", table.stdout)
    assert "layerstate run tiny_suite.yaml --model lstm --task parity8 --protocol behaviour" in table.stdout
    assert "\nforeign: add a spec of the model somebody first: a YAML file" in table.stdout
    assert "\nelsewhere: behaviour.accuracy has no length `60` there; it has `8` and `12`\n" in table.stdout

    def refuse(constant: str) -> float:
        raise AssertionError(constant)

    done = workshop.layerstate("claims", workshop.out, "--claims", path, "--format", "json")
    found = json.loads(done.stdout, parse_constant=refuse)["claims"][0]["verdicts"]
    words = {each["claim"]["id"]: each["verdict"] for each in found}
    assert {name: words[name] for name in ("behaves", "impossible", "absent")} == {
        "behaves": "reproduced",
        "impossible": "not_reproduced",
        "absent": "not_measured",
    }
    assert words["own"] in ("reproduced", "inconclusive")
    assert "one seed" in next(each["why"] for each in found if each["claim"]["id"] == "behaves")
