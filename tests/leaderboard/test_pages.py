"""What pages show: everything, with its reason where there is nothing, and whoever wrote it."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from layerstate.leaderboard.build import build_site, environment
from markupsafe import Markup

from tests.leaderboard.conftest import Page, pages_of
from tests.leaderboard.synthetic import FIVE, write_run

# Elements that may run, load, frame or send something.
_ACTIVE = {
    "iframe",
    "object",
    "embed",
    "form",
    "input",
    "base",
    "img",
    "audio",
    "video",
    "style",
    "foreignobject",
    "use",
}


@pytest.fixture(scope="module")
def index(site: Path) -> Page:
    return Page(site / "index.html")


def _row(page: Page, model: str) -> str:
    """The HTML of a model's row on the first board."""
    rows = re.findall(r"<tr class=\"m\d+\">.*?</tr>", page.path.read_text("utf-8"), re.DOTALL)
    return next(row for row in rows if f"models/{model}" in row)


def test_every_address_in_every_page_leads_somewhere(site: Path) -> None:
    ids = {page.path.resolve(): {a["id"] for _, a in page.elements if "id" in a} for page in pages_of(site)}
    for page in pages_of(site):
        for tag, attributes in page.elements:
            address = attributes.get("href", attributes.get("src"))
            if address is None:
                continue
            parts = urlsplit(address)
            if parts.scheme in ("http", "https"):
                assert tag == "a"
                continue
            assert parts.scheme == "", address
            assert not parts.path.startswith("/"), address
            target = (page.path.parent / unquote(parts.path) if parts.path else page.path).resolve()
            assert target.is_file(), f"{page.path.name} leads to {address}"
            assert target.is_relative_to(site.resolve())
            if parts.fragment:
                assert parts.fragment in ids[target], address


def test_ids_are_unique(site: Path) -> None:
    for page in pages_of(site):
        ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
        assert len(ids) == len(set(ids)), page.path


def test_every_chart_says_what_it_shows(site: Path) -> None:
    charts = [a for page in pages_of(site) for a in page.all("svg") if a.get("role") == "img"]
    assert len(charts) > 40
    assert all(len(chart["aria-label"]) > 20 for chart in charts)


def test_other_drawings_are_hidden_from_screen_readers(site: Path) -> None:
    for page in pages_of(site):
        assert all(a.get("role") == "img" or a.get("aria-hidden") == "true" for a in page.all("svg"))


def test_colours_of_charts_follow_the_page(site: Path) -> None:
    for page in pages_of(site):
        for _, attributes in page.elements:
            for name in ("fill", "stroke"):
                assert re.fullmatch(r"none|transparent|var\(--\w+, #[0-9a-f]{6}\)", attributes.get(name, "none"))


def test_untrained_control_and_intervals_are_drawn_for_every_model(site: Path) -> None:
    text = (site / "tasks" / "s3.html").read_text("utf-8")
    figure = text[text.index("Where element") :].partition("</figure>")[0]
    colours = set(re.findall(r'<path d="M[^"]*" stroke="var\(--(m\d+)', figure))
    dotted = set(re.findall(r'stroke="var\(--(m\d+)[^>]*stroke-dasharray="1,3.5"', figure))
    intervals = set(re.findall(r'<line [^>]*stroke="var\(--(m\d+)', figure))
    assert len(colours) == 5
    assert colours == dotted == intervals


def _figure(page: Path, title: str) -> str:
    text = page.read_text("utf-8")
    return text[text.index(f"{title}</figcaption>") :].partition("</figure>")[0]


def test_skill_below_chance_is_drawn_where_it_is(site: Path) -> None:
    """Held at the chance line, a skill of −0.34 looked like one of −0.04."""
    below, above = (_figure(site / "models" / name, "Skill by sequence length") for name in ("zero.html", "mamba.html"))
    assert ">−0.25</text>" in below
    assert ">−0.25</text>" not in above


def test_names_of_several_training_lengths_do_not_run_into_each_other(tmp_path: Path, site: Path) -> None:
    other = {"task:s3": {"lengths": {"train": 12, "evaluate": [12, 24]}}}
    run = write_run(tmp_path / "run", models=FIVE[4:], tasks=("parity", "s3"), sequences=40, changes=other)
    several = _figure(build_site([run], tmp_path / "site").parent / "models" / "gru.html", "Skill by sequence length")
    assert ">trained here</text>" not in several
    assert ">sequence length, dotted: trained here</text>" in several
    assert ">trained here</text>" in _figure(site / "models" / "mamba.html", "Skill by sequence length")


def test_a_model_with_gaps_is_listed_with_reason_and_coverage(index: Page) -> None:
    row = _row(index, "cut.html")
    assert "training failed: the loss became NaN at step 1,204" in row
    assert "s3: causal – not measured" in row
    assert "5 of 9 measurements" in row


def test_a_model_with_gaps_stands_below_every_complete_one(index: Page) -> None:
    text = index.path.read_text("utf-8")
    board = text[text.index('id="quick"') : text.index("</table>", text.index('id="quick"'))]
    order = re.findall(r'href="models/([a-z0-9_]+)[~.]', board)
    assert order.index("cut") > max(order.index(name) for name in ("gru", "mamba", "zero"))
    assert order.index("transformer") > order.index("zero")
    assert board.index("Not ranked") < board.index("models/cut")


def test_a_model_below_the_gate_is_listed_with_the_reason(index: Page) -> None:
    row = _row(index, "transformer.html")
    assert "Below the gate on s3: 0.810, needs 0.95" in row
    assert "9 of 9 measurements" in row


def test_missing_values_have_a_reason_and_no_sort_key(index: Page) -> None:
    row = _row(index, "gru~")
    cells = re.findall(r"<td[^>]*class=\"num[^\"]*missing gap[^>]*>.*?</td>", row)
    assert cells
    assert all("data-v" not in cell and "no causal site" in cell for cell in cells)


def test_true_zeros_are_numbers(index: Page) -> None:
    row = _row(index, "mamba.html")
    assert re.search(r'class="num gap[^"]*" data-v="0\.0"[^>]*>0<', row)


def test_values_below_chance_are_shown_as_they_are(index: Page) -> None:
    assert re.search(r'class="num skill" data-v="-0\.\d+"[^>]*>−0\.\d\d', _row(index, "zero.html"))


def test_a_gap_that_its_interval_leaves_open_shows_the_interval(index: Page) -> None:
    gaps = re.findall(
        r'<td class="num[^"]* gap[^"]*"[^>]*title="(\S+) to ([^\s;"]+)[^"]*">(.*?)</td>', index.path.read_text("utf-8")
    )
    opened = [("<small>" in cell) == (low != high) for low, high, cell in gaps]
    assert any(low != high for low, high, _ in gaps)
    assert all(opened)


def test_numbers_below_the_gate_are_marked(index: Page) -> None:
    row = _row(index, "transformer.html")
    assert "below gate: behaviour.accuracy at length 16 is 0.810, below 0.95" in row
    assert row.count("num muted gap") == 2


def test_one_seed_and_several_seeds_say_what_their_intervals_cover(index: Page) -> None:
    assert "One seed (0): intervals cover the choice of sequences only" in index.words
    assert "Intervals resample 3 seeds and whole sequences" in index.words


def test_files_that_cannot_be_used_are_named(index: Page) -> None:
    assert f"quick/results/{'f' * 24}.json" in index.words


def test_a_name_on_two_boards_has_two_pages_and_one_that_leads_to_both(site: Path) -> None:
    chooser = Page(site / "models" / "gru.html")
    targets = [a["href"] for a in chooser.all("a") if "gru~" in a["href"]]
    assert len(targets) == 2
    assert all((site / "models" / target).is_file() for target in targets)


def test_a_model_page_has_every_metric_with_its_interval(site: Path) -> None:
    page = Page(site / "models" / "mamba.html")
    for word in (
        "ood skill",
        "trained gain",
        "random drop",
        "refit skill",
        "late share",
        "shuffled",
        "probe per feature",
    ):
        assert word in page.words
    assert "0.963 to" in page.words or re.search(r"\d\.\d{3} to \d\.\d{3}", page.words)


def test_a_model_page_says_how_to_run_it_again(site: Path) -> None:
    page = Page(site / "models" / "mamba.html")
    assert "layerstate run quick --model mamba --out runs/mamba" in page.words
    assert "architecture: {type: mamba" in page.words
    assert "0123456789abcdef0123456789abcdef01234567" in page.words


def test_a_task_page_has_definition_chance_and_digests(site: Path) -> None:
    page = Page(site / "tasks" / "s3.html")
    assert "target: element" in page.words
    assert "Chance" in page.text
    assert "evaluate/16" in page.words


def test_the_method_page_says_what_every_metric_means(site: Path) -> None:
    page = Page(site / "method.html")
    for metric in ("ood_skill", "trained_gain", "refit_accuracy", "gap_share"):
        assert f"What {metric} says." in page.words
    assert "behaviour.accuracy at length train, at least 0.95" in page.words


def test_tables_state_their_headers_and_can_be_reached_by_keyboard(site: Path) -> None:
    for page in pages_of(site):
        assert all("scope" in header for header in page.all("th"))
        regions = [a for a in page.all("div") if a.get("role") == "region"]
        assert all(a.get("tabindex") == "0" and a.get("aria-label") for a in regions)


# Whoever wrote it


def test_hostile_text_is_shown_and_inert(hostile_site: Path) -> None:
    shown = 0
    for page in pages_of(hostile_site):
        text = page.path.read_text("utf-8")
        shown += text.count("&lt;script&gt;alert(1)")
        for tag, attributes in page.elements:
            assert tag not in _ACTIVE, tag
            assert tag != "script" or attributes["src"].endswith("static/board.js")
            assert not [name for name in attributes if name.startswith("on") or name == "style"], attributes
            for name in ("href", "src"):
                assert not attributes.get(name, "").strip().lower().startswith(("javascript:", "data:", "vbscript:"))
        assert "&amp;49" not in text, "a template ran what a file said"
        assert not re.search("[\u202a-\u202e\u2066-\u2069\u200b-\u200f]", text)
    assert shown > 50
    assert "&amp;{{7*7}}" in (hostile_site / "index.html").read_text("utf-8")


def test_hostile_pages_parse_into_the_same_elements_as_honest_ones(site: Path, hostile_site: Path) -> None:
    honest = {tag for page in pages_of(site) for tag, _ in page.elements}
    hostile = {tag for page in pages_of(hostile_site) for tag, _ in page.elements}
    assert hostile <= honest


def test_only_web_addresses_become_links(hostile_site: Path) -> None:
    links = [a["href"] for page in pages_of(hostile_site) for a in page.all("a")]
    outside = [link for link in links if urlsplit(link).scheme]
    assert outside
    assert all(re.fullmatch(r"https://a\.example/|https://arxiv\.org/abs/[\d.]+(?:v\d+)?", link) for link in outside)


def test_templates_escape_whatever_they_are_called() -> None:
    env = environment()
    for name in env.list_templates():
        template = env.get_template(name)
        assert template.environment.autoescape is True
        assert "autoescape" not in (env.loader.get_source(env, name)[0] if env.loader else "")
        assert "| safe" not in (env.loader.get_source(env, name)[0] if env.loader else "")
    assert env.from_string("{{ x }}").render(x="<b>") == "&lt;b&gt;"
    assert env.from_string("{{ x }}").render(x=Markup("<b>")) == "<b>"


def test_templates_refuse_what_is_not_there() -> None:
    env = environment()
    with pytest.raises(TypeError, match="None"):
        env.from_string("{{ x }}").render(x=None)
    with pytest.raises(Exception, match="undefined"):
        env.from_string("{{ nothing }}").render()


def test_pages_forbid_everything_from_elsewhere(site: Path) -> None:
    for page in pages_of(site):
        policy = next(a["content"] for a in page.all("meta") if a.get("http-equiv") == "Content-Security-Policy")
        assert policy.startswith("default-src 'none'")
        assert "unsafe" not in policy
        assert "http" not in policy
