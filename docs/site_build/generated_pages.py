"""Pages that are not written in `docs/`: the commands, the sheet of systems, and what lies in the
repository's root.
"""

import gc
import re
from pathlib import Path
from typing import Any

from site_build.system_sheet import sheet
from sphinx.application import Sphinx
from typer.cli import get_docs_for_click

from regard.cli.main import COMMANDS, load_command

FROM_ROOT = {"README": "index.md", "CONTRIBUTING": "contributing.md", "CHANGELOG": "changelog.md"}
"""Pages of the repository's root -> those of the site that include them."""
LINK = re.compile(r"(?<=\]\()(?:\.\./)?(README|CONTRIBUTING|CHANGELOG)\.md")


def commands_page() -> str:
    """Every command's help, as Markdown."""
    parts = []
    for name in COMMANDS:
        command = load_command(name)
        context = command.make_context(f"regard {name}", [], resilient_parsing=True)
        parts.append(get_docs_for_click(obj=command, ctx=context, name=f"regard {name}", indent=1))
    return "\n".join(parts)


def relink(text: str) -> str:
    """Links to files of the root lead to the pages that include them."""
    return LINK.sub(lambda found: FROM_ROOT[found[1]], text)


def read_page(app: Sphinx, name: str, content: list[str]) -> None:
    """The source of a page, as it is parsed."""
    if name == "commands":
        content[0] += commands_page()
    if name == "tour/sheet":
        content[0] += sheet()
    if name == "settings":  # one page with one title: its other headings go a level down
        content[0] = re.sub(r"(?<=\n)(?=#+ )", "#", content[0])
    content[0] = relink(content[0])


def read_included(app: Sphinx, path: Path, page: str, content: list[str]) -> None:
    """The source of an included file: its links are relative to the root."""
    content[0] = relink(re.sub(r'(\]\(|src=")docs/', r"\1", content[0]))


def read_docstring(
    app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]
) -> None:
    """Tables in docstrings, which are Markdown, stay as they are written."""
    for place in range(len(lines) - 1, -1, -1):
        if lines[place].startswith("|"):
            lines[place] = f"    {lines[place]}"
            if not lines[place - 1].startswith("|"):
                lines[place:place] = ["::", ""]


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    app.connect("source-read", read_page)
    app.connect("include-read", read_included)
    app.connect("autodoc-process-docstring", read_docstring)
    # what loading commands froze is to be freed: nanobind looks for leaks at the end
    app.connect("build-finished", lambda app, error: gc.unfreeze())
    return {"parallel_read_safe": True, "parallel_write_safe": True}
