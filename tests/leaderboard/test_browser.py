"""In a real Chromium: pages load from `file://` alone, sort as Python does, and follow the colour scheme."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed (extra `test`)")
CHROMIUM = shutil.which("chromium")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine; Debian has it as `chromium`"),
]

_QUIET = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=CHROMIUM, args=_QUIET)
        yield running
        running.close()


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """A page that fails its test at the first console error, dialogue or request that leaves the files."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, color_scheme="light")
    opened = context.new_page()
    faults: list[str] = []
    opened.on("console", lambda message: faults.append(message.text) if message.type in ("error", "warning") else None)
    opened.on("pageerror", lambda error: faults.append(str(error)))
    opened.on("dialog", lambda dialog: (faults.append(dialog.message), dialog.dismiss()))
    opened.on("request", lambda request: None if request.url.startswith("file://") else faults.append(request.url))
    opened.on(
        "requestfailed", lambda request: None if _is_cut_short(request) else faults.append(f"{request.url} failed")
    )
    yield opened
    context.close()
    assert not faults


def _is_cut_short(request: Any) -> bool:
    """Whether the test itself went on to the next page before the icon was there."""
    return request.failure == "net::ERR_ABORTED"


def _sorted_as_python(values: list[str | None], is_text: bool, descending: bool) -> list[str | None]:
    present = [value for value in values if value is not None]
    present.sort(key=(lambda value: value) if is_text else float, reverse=descending)
    return [*present, *(value for value in values if value is None)]


def _clicked(page: Any) -> list[dict[str, Any]]:
    """Click every sortable column twice: the direction after each click, and the sort keys before and after."""
    return page.evaluate(
        """() => {
            const keys = (table, column) => [...table.tBodies].map((body) => [...body.rows]
                .filter((row) => !row.classList.contains("divider"))
                .map((row) => row.cells[column].dataset.v ?? null));
            const found = [];
            for (const table of document.querySelectorAll("table.sortable")) {
                const rows = [...table.tBodies].map((body) => [...body.rows]);
                for (const header of table.querySelectorAll("th[data-col]")) {
                    const column = Number(header.dataset.col);
                    [...table.tBodies].forEach((body, index) => body.append(...rows[index]));
                    const before = keys(table, column);
                    for (let click = 0; click < 2; click += 1) {
                        header.querySelector("button").click();
                        found.push({column: header.textContent, text: header.classList.contains("text"), before,
                            after: keys(table, column), direction: header.getAttribute("aria-sort")});
                    }
                }
            }
            return found;
        }"""
    )


@pytest.mark.parametrize("name", ["index.html", "models/mamba.html", "tasks/s3.html"])
def test_every_column_sorts_as_python_does_with_missing_last(site: Path, page: Any, name: str) -> None:
    page.goto((site / name).as_uri())
    clicks = _clicked(page)
    assert len(clicks) > 16
    for click in clicks:
        descending = click["direction"] == "descending"
        expected = [_sorted_as_python(values, click["text"], descending) for values in click["before"]]
        assert click["after"] == expected, click
    assert {click["direction"] for click in clicks[::2]} == {"ascending", "descending"}
    assert all(one["direction"] != two["direction"] for one, two in zip(clicks[::2], clicks[1::2], strict=True))


@pytest.mark.parametrize("word", ["NaN", "N/A", "nan"])
def test_a_word_in_a_column_of_numbers_sorts_as_missing(site: Path, page: Any, word: str) -> None:
    page.goto((site / "tasks" / "s3.html").as_uri())
    page.evaluate("word => { document.querySelector('tbody').rows[1].cells[1].dataset.v = word }", word)
    for click in [click for click in _clicked(page) if click["column"] == "accuracy"]:
        numbers = [[value if value != word else None for value in values] for values in click["before"]]
        expected = [_sorted_as_python(values, False, click["direction"] == "descending") for values in numbers]
        assert [[value if value != word else None for value in values] for values in click["after"]] == expected
        assert all(values[-1] in (word, None) for values in click["after"])


def test_sorting_keeps_unranked_models_below_ranked_ones(site: Path, page: Any) -> None:
    page.goto((site / "index.html").as_uri())
    table = page.locator("#quick table")
    for column in range(table.locator("th[data-col]").count()):
        table.locator(f'th[data-col="{column}"] button').evaluate("button => button.click()")
        names = page.evaluate("[...document.querySelectorAll('#quick tbody th.model a')].map((a) => a.innerText)")
        assert set(names[-2:]) == {"Transformer", "Cut short"}
        assert table.locator("tbody").nth(1).locator("tr").first.inner_text() == "Not ranked"


def test_columns_sort_by_keyboard(site: Path, page: Any) -> None:
    page.goto((site / "index.html").as_uri())
    page.locator('th[data-col="1"] button').first.focus()
    page.keyboard.press("Enter")
    assert page.locator('th[data-col="1"]').first.get_attribute("aria-sort") == "ascending"


def test_no_page_errs_or_leaves_its_files(site: Path, page: Any) -> None:
    for path in sorted(site.rglob("*.html")):
        page.goto(path.as_uri())
        assert page.evaluate("getComputedStyle(document.body).margin") == "0px", "the style sheet is not applied"


def test_hostile_pages_run_nothing(hostile_site: Path, page: Any) -> None:
    for path in sorted(hostile_site.rglob("*.html")):
        page.goto(path.as_uri())
        page.wait_for_load_state("load")
        assert page.locator("script").count() == 1


def test_pages_read_the_same_without_script(site: Path, browser: Any) -> None:
    context = browser.new_context(java_script_enabled=False)
    plain = context.new_page()
    plain.goto((site / "index.html").as_uri())
    assert plain.locator("th[data-col] button").count() == 0
    assert plain.locator("#quick tbody tr").first.inner_text().startswith("1\t")
    assert plain.locator("#quick tbody tr th").first.inner_text().startswith("GRU")
    context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_and_charts_follow_the_colour_scheme(site: Path, page: Any, scheme: str) -> None:
    page.emulate_media(color_scheme=scheme)
    page.goto((site / "models" / "mamba.html").as_uri())
    paper = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    tick = page.evaluate("getComputedStyle(document.querySelector('figure svg text[fill*=muted]')).fill")
    line = page.evaluate("getComputedStyle(document.querySelector('figure svg path[stroke]')).stroke")
    light = {"paper": "rgb(255, 255, 255)", "tick": "rgb(89, 99, 110)", "line": "rgb(174, 65, 4)"}
    dark = {"paper": "rgb(20, 23, 27)", "tick": "rgb(154, 165, 177)", "line": "rgb(247, 147, 108)"}
    assert {"paper": paper, "tick": tick, "line": line} == (light if scheme == "light" else dark)


@pytest.mark.parametrize("name", ["index.html", "models/mamba.html", "tasks/s3.html", "method.html", "claims.html"])
def test_pages_fit_a_phone(site: Path, page: Any, name: str) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto((site / name).as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_paper_shows_what_is_folded(site: Path, page: Any) -> None:
    page.goto((site / "models" / "mamba.html").as_uri())
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert page.locator("details:not([open])").count() == 0


def test_the_picture_script_takes_a_picture(site: Path, tmp_path: Path) -> None:
    script = Path(__file__).parents[2] / "scripts" / "picture.py"
    subprocess.run([sys.executable, str(script), str(site), str(tmp_path / "board.png")], check=True)
    assert (tmp_path / "board.png").read_bytes().startswith(b"\x89PNG")
