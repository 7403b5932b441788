"""The built site, checked: nothing is fetched from elsewhere, and every link leads somewhere."""

import re
from collections.abc import Iterable, Iterator, Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from sphinx.application import Sphinx

RESOURCES = {
    "audio": ("src",),
    "embed": ("src",),
    "iframe": ("src",),
    "image": ("href", "xlink:href"),
    "img": ("src", "srcset"),
    "input": ("src",),
    "object": ("data",),
    "script": ("src",),
    "source": ("src", "srcset"),
    "track": ("src",),
    "use": ("href", "xlink:href"),
    "video": ("src", "poster"),
}
"""Element -> the attributes whose addresses a browser asks for by itself."""
LOADED_LINKS = {"icon", "manifest", "modulepreload", "preload", "stylesheet", "shortcut"}
LOADED_LINKS |= {"prefetch", "preconnect", "dns-prefetch"}
"""What a `<link>` is to a page where a browser asks for it by itself."""
STYLE_ADDRESS = re.compile(r"""(?:@import\s+(?!url)|url\(\s*)["']?([^"')\s;]+)""")


class PageReader(HTMLParser):
    """What a page asks for, where it leads, and what can be led to in it."""

    def __init__(self) -> None:
        super().__init__()
        self.resources: list[str] = []
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self._in_style = False

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attributes}
        self.anchors.update(given[name] for name in ("id", "name") if name in given)
        self._in_style = tag == "style"
        self.resources += [given[name] for name in RESOURCES.get(tag, ()) if name in given]
        self.resources += STYLE_ADDRESS.findall(given.get("style", ""))
        if tag == "link" and LOADED_LINKS.intersection(given.get("rel", "").lower().split()):
            self.resources.append(given.get("href", ""))
        if tag in ("a", "area") and "href" in given:
            self.links.append(given["href"])

    def handle_data(self, data: str) -> None:
        if self._in_style:
            self.resources += STYLE_ADDRESS.findall(data)
            self._in_style = False


def find_faults(site: Path) -> Iterator[str]:
    """What is wrong in the pages and style sheets of a folder, a line each."""
    site = site.resolve()
    pages = {path: _read(path) for path in sorted(site.rglob("*.html"))}
    for path, page in pages.items():
        faults = (*_resource_faults(path, page.resources), *_link_faults(path, page.links, pages))
        yield from (f"{path.relative_to(site)}: {fault}" for fault in faults)
    for sheet in sorted(site.rglob("*.css")):
        faults = _resource_faults(sheet, STYLE_ADDRESS.findall(sheet.read_text("utf-8")))
        yield from (f"{sheet.relative_to(site)}: {fault}" for fault in faults)


def _resource_faults(file: Path, addresses: Iterable[str]) -> Iterator[str]:
    for address in addresses:
        if _is_elsewhere(address):
            yield f"fetched from elsewhere: {address}"
        elif not _target(file, address).exists():
            yield f"not there: {address}"


def _link_faults(
    file: Path, addresses: Iterable[str], pages: Mapping[Path, PageReader]
) -> Iterator[str]:
    for address in addresses:
        parts = urlsplit(address)
        if parts.scheme or parts.netloc:
            continue
        target, anchor = _target(file, address), unquote(parts.fragment)
        if not target.exists():
            yield f"leads nowhere: {address}"
        elif anchor and target in pages and anchor not in pages[target].anchors:
            yield f"leads to no heading: {address}"


def _read(path: Path) -> PageReader:
    page = PageReader()
    page.feed(path.read_text("utf-8"))
    return page


def _is_elsewhere(address: str) -> bool:
    parts = urlsplit(address)
    return parts.scheme not in ("", "data") or bool(parts.netloc)


def _target(page: Path, address: str) -> Path:
    """The file that an address in a page leads to; the page itself where it holds the content."""
    parts = urlsplit(address)
    return (
        (page.parent / unquote(parts.path)).resolve() if parts.path and not parts.scheme else page
    )


def check_site(app: "Sphinx", error: Exception | None) -> None:
    """Warn of each fault, which is an error in `make docs`."""
    from sphinx.util import logging  # the tests do without Sphinx

    if error is None and app.builder.format == "html":
        for fault in find_faults(Path(app.outdir)):
            logging.getLogger(__name__).warning(fault)


def setup(app: "Sphinx") -> dict[str, Any]:
    """Called by Sphinx."""
    app.connect("build-finished", check_site, priority=900)  # when all files are written
    return {"parallel_read_safe": True, "parallel_write_safe": True}
