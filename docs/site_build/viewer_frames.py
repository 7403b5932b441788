"""The directive `look`: the interactive viewer in a page, computed by the packaged model.

```{look} Elle ne la visite pas.
```
"""

import re
from html import escape
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

import regard

FOLDER = "look"  # of the site, with the files of the viewer
N_BEST = 4


class LookDirective(SphinxDirective):
    """A frame with the viewer of a French sentence, and a link to the file that it shows."""

    required_arguments, final_argument_whitespace = 1, True

    def run(self) -> list[nodes.Node]:
        text = self.arguments[0]
        file = viewer_file(text)
        if not hasattr(self.env, "regard_looks"):
            self.env.regard_looks = {}  # type: ignore[attr-defined]
        self.env.regard_looks[file] = text  # type: ignore[attr-defined]
        address = "../" * self.env.docname.count("/") + file
        title = f"The attention of a translation of {text!r}, interactive"
        frame = (
            f'<iframe class="viewer" src="{escape(address)}" title="{escape(title)}" '
            f'loading="lazy"></iframe><p class="viewer-alone"><a href="{escape(address)}">The '
            "viewer alone</a></p>"
        )
        return [nodes.raw("", frame, format="html")]


def viewer_file(text: str) -> str:
    """Where in the site the viewer of a text is."""
    return f"{FOLDER}/{re.sub(r'[^a-z]+', '-', text.lower()).strip('-')}.html"


def write_viewers(app: Sphinx, error: Exception | None) -> None:
    """Write the files that the frames show."""
    looks: dict[str, str] = getattr(app.env, "regard_looks", {})
    if error is not None or app.builder.format != "html" or not looks:
        return
    translator = regard.load(device="cpu")
    for file, text in looks.items():
        path = Path(app.outdir) / file
        path.parent.mkdir(exist_ok=True)
        page = translator.look(text, tree=True, n_best=N_BEST).page("travel")
        path.write_text(page, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    app.add_directive("look", LookDirective)
    app.connect("build-finished", write_viewers)
    return {"parallel_read_safe": False, "parallel_write_safe": True}
