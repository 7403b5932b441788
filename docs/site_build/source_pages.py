"""A page for each source file that the documentation names, and links to it.

A link to `../src/regard/a/b.py` and a code span `a/b.py` lead to that page; elsewhere than on the
site, the first leads to the file itself.
"""

from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

ROOT = Path(__file__).parents[2]
BASES = (ROOT, ROOT / "src" / "regard")
"""What paths in the documentation are relative to."""


def find_source(name: str) -> Path | None:
    """The source file that a text names, if it does."""
    if not name.endswith(".py") or " " in name:
        return None
    return next((base / name for base in BASES if (base / name).is_file()), None)


def page_name(source: Path) -> str:
    """The page of a source file."""
    return f"source/{source.relative_to(ROOT).with_suffix('').as_posix()}"


class LinkSources(SphinxTransform):
    """Makes links to source files, and code spans that name one, lead to its page."""

    default_priority = 400

    def apply(self, **kwargs: Any) -> None:
        for link in list(self.document.findall(addnodes.pending_xref)):
            source = Path(f"{link['reftarget']}.py")  # absolute: the chapters are pages and scripts
            if source.is_relative_to(ROOT / "src") and source.is_file():
                link.replace_self(self.reference(source, *link.children))
        for span in list(self.document.findall(nodes.literal)):
            found = find_source(span.astext())
            if found is not None and not _is_in_link(span):
                span.replace_self(self.reference(found, span.deepcopy()))

    def reference(self, source: Path, *children: nodes.Node) -> nodes.reference:
        """A link to the page of `source`, which is then made."""
        sources_of(self.app).add(source)
        uri = self.app.builder.get_relative_uri(self.env.docname, page_name(source))
        return nodes.reference("", "", *children, internal=True, refuri=uri)


def _is_in_link(node: nodes.Node | None) -> bool:
    while node is not None and not isinstance(node, nodes.reference):
        node = node.parent
    return node is not None


def sources_of(app: Sphinx) -> set[Path]:
    """The source files that some page names."""
    if not hasattr(app.env, "regard_sources"):
        app.env.regard_sources = set()  # type: ignore[attr-defined]
    found: set[Path] = app.env.regard_sources
    return found


def collect_pages(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """The page of each source file, as Sphinx asks for it."""
    for source in sorted(sources_of(app)):
        name = source.relative_to(ROOT).as_posix()
        code = app.builder.highlighter.highlight_block(  # type: ignore[attr-defined]
            source.read_text("utf-8"), "python", linenos="inline"
        )
        yield (
            page_name(source),
            {"title": name, "body": f"<h1>{escape(name)}</h1>{code}"},
            "page.html",
        )


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    app.add_transform(LinkSources)
    app.connect("html-collect-pages", collect_pages)
    return {"parallel_read_safe": False, "parallel_write_safe": True}
