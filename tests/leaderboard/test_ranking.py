"""Who ranks where: ties, gaps, gates, and what an interval covers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from layerstate.leaderboard.boards import Board, Entry
from layerstate.leaderboard.cells import cell_of
from layerstate.leaderboard.estimates import combine
from layerstate.leaderboard.ranking import Ranking
from layerstate.leaderboard.read import SiteError, read_records
from layerstate.leaderboard.site import Site, make_site
from layerstate.suite.spec.results import Metric, PackedArray

from tests.leaderboard.conftest import change_json
from tests.leaderboard.simulated import Faults, Planned
from tests.leaderboard.synthetic import FIVE, write_run


def _model(name: str, far: float, **other: Any) -> Planned:
    return Planned(name, name.title(), "gru", {"*": 0.99}, {"*": far}, wobble=0.0, **other)


def _site(*runs: Path) -> Site:
    return make_site(read_records(runs))


def _board(*runs: Path) -> tuple[Board, Ranking]:
    site = _site(*runs)
    return site.boards[0], site.rankings[site.boards[0].identity]


def _entry(board: Board, name: str) -> Entry:
    return next(entry for entry in board.entries if entry.name == name)


def _ranks(board: Board) -> dict[str, int | None]:
    return {entry.name: entry.rank for entry in board.entries}


def _small(out: Path, models: list[Planned], **other: Any) -> Path:
    return write_run(out, models=models, **({"tasks": ("parity",), "protocols": ("behaviour",)} | other))


def test_models_that_cannot_be_told_apart_share_a_rank(tmp_path: Path) -> None:
    models = [_model("best", 0.95), _model("alike", 0.80), _model("alike_too", 0.80), _model("last", 0.6)]
    board, ranking = _board(_small(tmp_path / "run", models))
    assert _ranks(board) == {"best": 1, "alike": 2, "alike_too": 2, "last": 4}
    one, other = _entry(board, "alike"), _entry(board, "alike_too")
    tie = ranking.differences[one.identity, other.identity]
    assert tie.low <= 0 <= tie.high


def test_ranks_do_not_depend_on_the_order_of_files(tmp_path: Path) -> None:
    models = [_model("a", 0.80), _model("b", 0.80), _model("c", 0.9)]
    there, _ = _board(_small(tmp_path / "there", models))
    back, _ = _board(_small(tmp_path / "back", models[::-1]))
    assert [entry.name for entry in there.entries] == [entry.name for entry in back.entries]
    assert _ranks(there) == _ranks(back)


def test_the_headline_is_the_mean_over_tasks_and_seeds(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", models=FIVE[3:], seeds=(0, 1, 2), protocols=("behaviour",))
    board, ranking = _board(run)
    for entry in board.entries:
        skills = [m.value for r in entry.results.values() for m in r.metrics if m.metric == "ood_skill"]
        headline = ranking.headlines[entry.identity]
        assert headline.value == pytest.approx(np.mean(np.array(skills, float)))
        assert headline.low < headline.value < headline.high


def test_pairing_by_sequence_tells_apart_what_intervals_alone_do_not(tmp_path: Path) -> None:
    # The second model makes the first one's mistakes and one more in every other sequence.
    run = _small(tmp_path / "run", [_model("plain", 0.7), _model("worse", 0.7)])
    counts: dict[int, Any] = {}

    def keep(result: dict[str, Any]) -> None:
        is_worse = result["cell"]["model"] == "worse"
        skills = []
        for length in (24, 32):
            packed = PackedArray.model_validate(result["arrays"][f"correct/{length}"])
            right = np.clip(counts[length] - np.arange(200) % 2, 0, None) if is_worse else packed.unpack()
            counts.setdefault(length, right)
            guessed = PackedArray.model_validate(result["arrays"][f"chance/{length}"]).unpack().mean()
            skills.append((right.mean() - guessed) / (length - guessed))
            result["arrays"][f"correct/{length}"] = PackedArray.pack(right).model_dump()
        next(m for m in result["metrics"] if m["metric"] == "ood_skill")["value"] = float(np.mean(skills))

    paths = sorted((run / "results").glob("*.json"), key=lambda path: '"worse"' in path.read_text("utf-8"))
    for path in paths:
        change_json(path, keep)
    board, ranking = _board(run)
    plain, worse = (ranking.headlines[_entry(board, name).identity] for name in ("plain", "worse"))
    assert worse.high > plain.low, "their own intervals overlap"
    assert _ranks(board) == {"plain": 1, "worse": 2}


def test_more_seeds_widen_the_interval_by_their_spread(tmp_path: Path) -> None:
    run = _small(tmp_path / "run", [_model("steady", 0.8), _model("moody", 0.8)], seeds=(0, 1, 2, 3))

    def spread(result: dict[str, Any]) -> None:
        if result["cell"]["model"] != "moody":
            return
        skills = []
        for length in (24, 32):
            right = PackedArray.model_validate(result["arrays"][f"correct/{length}"]).unpack()
            right = np.clip(right - 3 * (result["cell"]["seed"] % 2), 0, length)
            guessed = PackedArray.model_validate(result["arrays"][f"chance/{length}"]).unpack().mean()
            skills.append((right.mean() - guessed) / (length - guessed))
            result["arrays"][f"correct/{length}"] = PackedArray.pack(right).model_dump()
        next(m for m in result["metrics"] if m["metric"] == "ood_skill")["value"] = float(np.mean(skills))

    for path in (run / "results").glob("*.json"):
        change_json(path, spread)
    board, ranking = _board(run)
    steady, moody = (ranking.headlines[_entry(board, name).identity] for name in ("steady", "moody"))
    assert moody.high - moody.low > 3 * (steady.high - steady.low)


def test_intervals_of_a_difference_cover_the_truth(tmp_path: Path) -> None:
    """Of 100 pairs of equal models, 95 % intervals of the difference leave out 0 in about 5."""
    models = [_model(f"m{number:03d}", 0.8) for number in range(100)]
    board, ranking = _board(_small(tmp_path / "run", models, sequences=100))
    pairs = [(f"m{number:03d}", f"m{number + 1:03d}") for number in range(0, 100, 2)]
    apart = sum(ranking.differences[_entry(board, a).identity, _entry(board, b).identity].tells_apart for a, b in pairs)
    assert apart <= 9


def test_intervals_over_five_seeds_that_differ_cover_the_truth(tmp_path: Path) -> None:
    """Plain percentiles of five seeds that differ told 1 in 6 pairs of equal models apart."""
    moody = [Planned(f"m{n:03d}", f"M{n:03d}", "gru", {"*": 0.99}, {"*": 0.7}, wobble=0.05) for n in range(80)]
    run = _small(tmp_path / "run", moody, seeds=tuple(range(5)), sequences=60)
    board, ranking = _board(run)
    pairs = [(f"m{number:03d}", f"m{number + 1:03d}") for number in range(0, 80, 2)]
    apart = sum(ranking.differences[_entry(board, a).identity, _entry(board, b).identity].tells_apart for a, b in pairs)
    assert apart <= 4


@pytest.mark.parametrize("seeds", [2, 3, 5])
def test_means_over_few_seeds_have_intervals_that_cover(seeds: int) -> None:
    rng = np.random.default_rng(5)
    groups = [
        [
            Metric(metric="score", value=float(value), unit="points", direction="none")
            for value in rng.normal(0.7, 0.1, size=seeds)
        ]
        for _ in range(2000)
    ]
    covered = [
        made.low <= 0.7 <= made.high
        for made in combine(groups, seeds)
        if made.low is not None and made.high is not None
    ]
    assert len(covered) == 2000
    assert 0.935 <= np.mean(covered) <= 0.965


def test_few_seeds_that_are_all_alike_are_shown_with_the_reason_why_there_is_no_interval() -> None:
    alike = Metric(metric="gap", value=0.0, low=0.0, high=0.0, unit="sites", direction="none")
    (made,) = combine([[alike, alike]], 2)
    assert (made.value, made.low, made.high) == (0.0, None, None)
    assert "2 seeds, all alike" in cell_of(made).note


@pytest.mark.parametrize(
    ("faults", "reason"),
    [
        (Faults(absent={("best", "s3", 0, "behaviour")}), "Incomplete: s3: behaviour – not measured"),
        (Faults(absent={("best", "s3", 0, "causal")}), "Incomplete: s3: causal – not measured"),
        (Faults(failed={("best", "parity", 0): "out of memory"}), "training failed: out of memory"),
    ],
)
def test_a_model_without_all_measurements_has_no_rank(tmp_path: Path, faults: Faults, reason: str) -> None:
    run = write_run(tmp_path / "run", models=[_model("best", 0.99), _model("other", 0.7)], faults=faults)
    board, ranking = _board(run)
    assert _ranks(board) == {"other": 1, "best": None}
    assert reason in _entry(board, "best").unranked[0]
    assert board.entries[-1].name == "best"
    assert _entry(board, "best").identity not in ranking.headlines


def test_a_model_below_the_gate_has_no_rank(tmp_path: Path) -> None:
    low = Planned("low", "Low", "gru", {"*": 0.99, "s3": 0.94}, {"*": 0.93})
    board, _ = _board(_small(tmp_path / "run", [low, _model("other", 0.7)], tasks=("parity", "s3")))
    assert _ranks(board) == {"other": 1, "low": None}
    assert _entry(board, "low").unranked == ["Below the gate on s3: 0.940, needs 0.95"]


def test_one_seed_of_several_below_the_gate_is_enough(tmp_path: Path) -> None:
    run = _small(tmp_path / "run", [_model("one", 0.9), _model("two", 0.8)], seeds=(0, 1))

    def lower(result: dict[str, Any]) -> None:
        if (result["cell"]["model"], result["cell"]["seed"]) == ("one", 1):
            result["gate"] |= {"value": 0.7, "passed": False}

    for path in (run / "results").glob("*.json"):
        change_json(path, lower)
    board, _ = _board(run)
    assert _entry(board, "one").unranked == ["Below the gate on parity in 1 of 2 seeds: 0.700, needs 0.95"]


def test_a_headline_that_its_counts_do_not_bear_out_ranks_nobody(tmp_path: Path) -> None:
    run = _small(tmp_path / "run", [_model("honest", 0.8), _model("boast", 0.7)])

    def boast(result: dict[str, Any]) -> None:
        if result["cell"]["model"] == "boast":
            next(m for m in result["metrics"] if m["metric"] == "ood_skill")["value"] = 0.999

    for path in (run / "results").glob("*.json"):
        change_json(path, boast)
    board, _ = _board(run)
    assert _ranks(board) == {"honest": 1, "boast": None}
    assert "its counts make it" in _entry(board, "boast").unranked[0]


def test_a_model_scored_on_other_sequences_has_no_rank(tmp_path: Path) -> None:
    models = [_model("a", 0.8), _model("b", 0.7)]
    run = _small(tmp_path / "run", models)
    odd = next(p for p in (run / "results").glob("*.json") if '"model": "b"' in p.read_text("utf-8"))

    def other_data(result: dict[str, Any]) -> None:
        result["digests"] = dict.fromkeys(result["digests"], "0" * 24)

    change_json(odd, other_data)
    three = _small(tmp_path / "third", [_model("c", 0.6)])
    board, _ = _board(run, three)
    assert _ranks(board) == {"a": 1, "c": 2, "b": None}
    assert "other data" in _entry(board, "b").unranked[0]


def test_versions_of_a_protocol_never_rank_together(tmp_path: Path) -> None:
    run = _small(tmp_path / "run", [_model("new", 0.7), _model("old", 0.9)])

    def newer(result: dict[str, Any]) -> None:
        result["protocol_version"] = 2 if result["cell"]["model"] == "new" else 1

    for path in (run / "results").glob("*.json"):
        change_json(path, newer)
    board, _ = _board(run)
    assert _ranks(board) == {"new": 1, "old": None}
    assert _entry(board, "old").unranked == ["Measured by version 1 of behaviour; this board ranks 2"]


def test_a_headline_without_counts_ranks_by_its_values(tmp_path: Path) -> None:
    run = _small(
        tmp_path / "run",
        [_model("a", 0.9), _model("b", 0.5), _model("c", 0.5)],
        protocols=("mine",),
        headline="mine.score",
    )
    board, ranking = _board(run)
    assert _ranks(board) == {"a": 1, "b": 2, "c": 2}
    assert not ranking.paired_by_sequence


def test_a_headline_that_nobody_measured_ranks_nobody(tmp_path: Path) -> None:
    board, _ = _board(_small(tmp_path / "run", [_model("a", 0.9)], headline="other.score"))
    assert _ranks(board) == {"a": None}
    assert "other was not run" in _entry(board, "a").unranked[0]


def test_runs_of_one_suite_are_one_board(tmp_path: Path) -> None:
    everyone = write_run(tmp_path / "zoo", models=FIVE[3:], protocols=("behaviour",))
    mine = write_run(tmp_path / "mine", models=[_model("mine", 0.9)], protocols=("behaviour",))
    site = _site(everyone, mine)
    assert [board.slug for board in site.boards] == ["quick"]
    assert set(_ranks(site.boards[0])) == {"lstm", "gru", "mine"}


def test_a_part_of_a_suite_leaves_its_model_incomplete_and_the_others_alone(tmp_path: Path) -> None:
    everyone = write_run(tmp_path / "zoo", models=FIVE[3:], protocols=("behaviour",))
    mine = write_run(tmp_path / "mine", models=[_model("mine", 0.99)], protocols=("behaviour",), tasks=("parity",))
    board, _ = _board(everyone, mine)
    assert _ranks(board)["mine"] is None
    assert _entry(board, "mine").measured == 1
    assert _ranks(board)["gru"] == 1


def test_a_later_source_cannot_ask_more_of_the_models_before_it(tmp_path: Path) -> None:
    everyone = _small(tmp_path / "zoo", [_model("a", 0.9)])
    greedy = _small(tmp_path / "greedy", [_model("greedy", 0.95)], seeds=tuple(range(5)))
    board, _ = _board(everyone, greedy)
    assert board.seeds == [0]
    assert _ranks(board) == {"greedy": 1, "a": 2}


def test_the_same_suite_on_other_data_is_another_board(tmp_path: Path) -> None:
    short = _small(tmp_path / "short", [_model("a", 0.9)])
    long = _small(tmp_path / "long", [_model("a", 0.9)], lengths=(40, 60, 80))
    site = _site(short, long)
    assert len({board.slug for board in site.boards}) == 2
    assert all(board.slug.startswith("quick~") for board in site.boards)
    assert len({site.model_page(board.entries[0]) for board in site.boards}) == 2


def test_two_models_of_one_name_stand_side_by_side(tmp_path: Path) -> None:
    one = _small(tmp_path / "one", [_model("same", 0.9)])
    two = _small(tmp_path / "two", [_model("same", 0.7, blocks=6)])
    site = _site(one, two)
    assert [entry.rank for entry in site.boards[0].entries] == [1, 2]
    assert len({site.model_page(entry) for entry in site.boards[0].entries}) == 2


def test_no_suite_is_an_error_that_says_where_one_would_be(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(SiteError, match="suites/"):
        _site(tmp_path / "empty")
    with pytest.raises(SiteError, match="not a folder"):
        _site(tmp_path / "nowhere")
