"""Takes the README's picture of a board: ``python scripts/picture.py SITE docs/board.png``.

Needs Playwright (the `test` extra) and a Chromium; neither touches the network.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from playwright.sync_api import sync_playwright


def take(site: Path, picture: Path, *, scheme: str, width: int, page_name: str, whole: bool) -> None:
    """Write a PNG of the first board of a site, or of a whole page, at twice its size."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        raise SystemExit("No Chromium was found; on Debian, `apt-get install chromium` provides one.")
    if not (site / page_name).is_file():
        raise SystemExit(
            f"{site / page_name} is not there; `layerstate leaderboard build RUN --out {site}` makes a site."
        )
    picture.parent.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(
            viewport={"width": width, "height": 900},
            device_scale_factor=2,
            color_scheme="dark" if scheme == "dark" else "light",
        )
        page.goto((site / page_name).resolve().as_uri())
        if whole:
            page.screenshot(path=picture, full_page=True)
        else:
            box = page.locator("section.board .table").first.bounding_box()
            top = page.locator("section.board").first.bounding_box()
            if box is None or top is None:
                raise SystemExit(f"{site / page_name} shows no board.")
            bottom = box["y"] + box["height"] + 18
            clip = {"x": 0, "y": top["y"] - 20, "width": width, "height": bottom - top["y"] + 20}
            page.screenshot(path=picture, full_page=True, clip=clip)
        browser.close()


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("site", type=Path, help="a folder that `layerstate leaderboard build` wrote")
    parser.add_argument("picture", type=Path, help="the PNG to write")
    parser.add_argument("--scheme", choices=("light", "dark"), default="light")
    parser.add_argument("--width", type=int, default=1280, help="of the window, in pixels")
    parser.add_argument("--page", default="index.html", help="the page, from the site's root")
    parser.add_argument("--whole", action="store_true", help="the whole page, not the board alone")
    chosen = parser.parse_args()
    take(
        chosen.site,
        chosen.picture,
        scheme=chosen.scheme,
        width=chosen.width,
        page_name=chosen.page,
        whole=chosen.whole,
    )


if __name__ == "__main__":
    main()
