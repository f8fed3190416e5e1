"""The static site: every page and table as bytes first, then written; the same input gives the same bytes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from ..suite.runner.files import StoreError, make_folder, translated, write_atomic
from .boards import Board, Entry
from .claims_page import claim_blocks
from .colours import SHAPES, stylesheet
from .export import tables
from .index_page import board_view
from .method_page import method_view
from .model_page import model_view
from .read import SiteError, read_records
from .site import Site, make_site
from .task_page import STRUCTURES, task_view
from .text import clean, linked, plural

__all__ = ["build_site", "environment"]

MANIFEST = "site.json"
_HERE = Path(__file__).parent
_SHORT = 300


def build_site(sources: Sequence[Path], out: Path) -> Path:
    """Build the static site from run folders.

    Parameters
    ----------
    sources : sequence of Path
        Folders that `layerstate run` wrote, or folders of such folders.
    out : Path
        Where the site goes: a new or empty folder, or one with an earlier site, whose files that are no longer made
        are removed.

    Returns
    -------
    Path
        The index page.

    Raises
    ------
    SiteError
        If there is nothing to show, or `out` holds something that is not a site.
    StoreError
        If `out` cannot be written.
    """
    earlier = _earlier_files(out)
    site = make_site(read_records(sources))
    files = _pages(site) | tables(site) | _assets(site)
    listed = {name: hashlib.sha256(data).hexdigest() for name, data in sorted(files.items())}
    manifest = json.dumps({"layerstate": version("layerstate"), "files": listed}, indent=1, ensure_ascii=True) + "\n"
    for name, data in sorted(files.items()):
        make_folder((out / name).parent)
        write_atomic(out / name, data)
    # The manifest goes last but for the removal, so that an interrupted build still owns its files.
    write_atomic(out / MANIFEST, manifest.encode("ascii"))
    for name in earlier - files.keys():
        _remove(out / name)
    return out / "index.html"


def environment() -> jinja2.Environment:
    """The template environment: values are escaped whatever a template is called, and undefined ones are errors."""
    env = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_finalised,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    env.filters |= {"linked": linked, "shortened": lambda text: clean(str(text), _SHORT), "casefold": str.casefold}
    return env


def _finalised(value: Any) -> Any:
    """What a template may show: text with nothing hidden in it; None is a mistake of the template."""
    if value is None:
        raise TypeError("a template shows None")
    return clean(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _pages(site: Site) -> dict[str, bytes]:
    env = environment()
    common = {"footer": _footer(site), "shapes": SHAPES, "pages": site.task_pages}
    pages: dict[str, bytes] = {}

    def add(address: str, template: str, title: str, here: str, **values: Any) -> None:
        root = "../" * address.count("/")
        shown = env.get_template(template).render(title=title, here=here, root=root, **common, **values)
        pages[address] = shown.encode("utf-8")

    count = sum(len(entry.results) for board in site.boards for entry in board.entries)
    add(
        "index.html",
        "index.html.j2",
        "Board",
        "index",
        boards=[board_view(site, board) for board in site.boards],
        tasks=_cards(site),
        refused=site.refused,
        measurements=plural(count, "measurement"),
    )
    add("claims.html", "claims.html.j2", "Claims", "claims", blocks=claim_blocks(site))
    add("method.html", "method.html.j2", "Method", "method", view=method_view(site))
    for board in site.boards:
        for entry in board.entries:
            view = model_view(site, board, entry)
            add(site.model_page(entry), "model.html.j2", entry.model.title, "model", view=view)
        for task, spec in board.tasks.items():
            add(site.task_page(board, task), "task.html.j2", spec.title, "task", view=task_view(site, board, task))
    for address, choices in _choices(site).items():
        name = address.partition("/")[2].removesuffix(".html")
        add(address, "choose.html.j2", name, address.partition("/")[0][:-1], choices=choices)
    return pages


def _cards(site: Site) -> list[dict[str, Any]]:
    return [
        {
            "page": site.task_page(board, name),
            "task": spec,
            "shape": SHAPES[spec.structure],
            "structure": STRUCTURES[spec.structure],
            "board": board.suite.title if len(site.boards) > 1 else "",
        }
        for board in site.boards
        for name, spec in board.tasks.items()
    ]


def _choices(site: Site) -> dict[str, list[tuple[str, str, str]]]:
    """Pages for names that stand for several things, so that the plain address always leads somewhere."""
    found: dict[str, list[tuple[str, str, str]]] = {}
    models: list[tuple[Board, Entry]] = [(board, entry) for board in site.boards for entry in board.entries]
    for board, entry in models:
        plain = f"models/{entry.name}.html"
        if site.model_page(entry) != plain:
            place = (site.model_page(entry), entry.model.title, f"{board.suite.title} ({board.slug}), {entry.identity}")
            found.setdefault(plain, []).append(place)
    for board in site.boards:
        for name, spec in board.tasks.items():
            plain = f"tasks/{name}.html"
            if site.task_page(board, name) != plain:
                place = (site.task_page(board, name), spec.title, f"{board.suite.title} ({board.slug})")
                found.setdefault(plain, []).append(place)
    return found


def _footer(site: Site) -> str:
    results = [r for board in site.boards for entry in board.entries for r in entry.results.values()]
    versions = sorted({result.provenance.layerstate for result in results})
    times = sorted(result.provenance.time for result in results)
    said = [f"layerstate {version('layerstate')}"]
    if results:
        count = plural(len(results), "measurement")
        said.append(f"{count} made with {', '.join(versions)}, the last on {times[-1][:10]}")
    return " · ".join(said)


def _assets(site: Site) -> dict[str, bytes]:
    files = sorted(path for path in (_HERE / "static").iterdir() if path.is_file())
    return {f"static/{path.name}": path.read_bytes() for path in files} | {
        "static/colours.css": stylesheet(site.inks.values()).encode("ascii")
    }


def _earlier_files(out: Path) -> set[str]:
    """What an earlier build left in `out`; SiteError if it holds something else."""
    try:
        if not out.exists() or (out.is_dir() and not any(out.iterdir())):
            return set()
        if not out.is_dir():
            raise SiteError(f"{out} is a file; the site needs a folder.")
        found = json.loads((out / MANIFEST).read_text("utf-8"))
        names: set[str] = set(found["files"])
    except OSError as error:
        if isinstance(error, FileNotFoundError):
            raise SiteError(
                f"{out} is not empty and holds no earlier site; "
                "choose another folder, so that nothing in it is overwritten."
            ) from error
        raise translated(error, out) from error
    except (ValueError, KeyError, TypeError) as error:
        raise SiteError(
            f"{out / MANIFEST} is not the list of a site's files; move {out} away and build again."
        ) from error
    return {name for name in names if _stays_inside(name)}


def _stays_inside(name: str) -> bool:
    parts = Path(name).parts
    return bool(parts) and not Path(name).is_absolute() and ".." not in parts


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise StoreError(f"{path} belongs to the earlier site and cannot be removed: {error.strerror}.") from error
