"""The attention viewer as one HTML file, which opens without a server or network.

A file on a disk may not import ES modules, so they are written into it, each in a function that
returns its exports. A module must import by `import { a, b } from "./name.js";` and export a
function, class or const where it is defined.
"""

import base64
import hashlib
import html
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from string import Template
from typing import Any, NamedTuple

ASSETS = Path(__file__).parent  # the viewer's modules and style sheets


class Page(NamedTuple):
    """The files of a kind of page."""

    template: str
    entry: str  # the module that draws it
    style_sheets: tuple[str, ...]


SENTENCE_PAGE = Page("file.html", "file.js", ("theme.css", "view.css", "file.css", "print.css"))
PICTURE_PAGE = SENTENCE_PAGE._replace(entry="picture.js")
SERIES_PAGE = Page("file.html", "series.js", ("theme.css", "series.css", "file.css", "print.css"))
MAX_NOTEBOOK_PAGE = 8_000_000  # characters; larger ones would make a notebook slow to open
FRAME_STYLE = "width: 100%; height: 720px; border: 0; resize: vertical; overflow: auto"
IMPORT = re.compile(r'^import \{([^}]*)\} from "\./([a-z_]+)\.js";\n', re.MULTILINE)
EXPORT = re.compile(r"^export (?=(?:function|class|const) (\w+))", re.MULTILINE)
DOC_COMMENT = re.compile(r"^ */\*\*.*?\*/\n", re.MULTILINE | re.DOTALL)
STYLE_COMMENT = re.compile(r"^ */\*.*?\*/\n| */\*.*?\*/", re.MULTILINE | re.DOTALL)
STYLE_IMPORT = re.compile(r'^@import "\./([a-z_]+\.css)";\n', re.MULTILINE)
UNSUPPORTED_STATEMENT = re.compile(r"^\s*(?:import|export|.*await import)\b.*", re.MULTILINE)


def render_picture_page(document: Mapping[str, Any]) -> str:
    """The whole page of a picture and its caption."""
    return _render(PICTURE_PAGE, str(document["text"]), document)


def render_series_page(document: Mapping[str, Any]) -> str:
    """The whole page of a series and its forecast."""
    return _render(SERIES_PAGE, str(document["text"]), document)


def render_page(document: Mapping[str, Any]) -> str:
    """The whole page, under a content security policy that allows only its own script and style."""
    source, target = document["source"]["text"], document["target"]["text"]
    title = f"{source} → {target}" if source else target
    return _render(SENTENCE_PAGE, title, document)


def notebook_page(page: str, picture: str) -> str:
    """HTML with which a notebook shows a page, in a frame that runs only its script; below it
    `picture`, HTML for places where no script runs. For very large pages, only `picture`.
    """
    if len(page) > MAX_NOTEBOOK_PAGE:
        return picture
    held = f'<iframe sandbox="allow-scripts" srcdoc="{html.escape(page)}" style="{FRAME_STYLE}"'
    return (
        f'{held} title="attention viewer"></iframe>'
        f"<details><summary>as a picture</summary>{picture}</details>"
    )


def _render(page: Page, title: str, document: Mapping[str, Any]) -> str:
    script, style = bundle(page.entry), styles(page)
    template = Template((ASSETS / page.template).read_text(encoding="utf-8"))
    return template.substitute(
        policy=_content_security_policy(script, style),
        title=html.escape(title),
        style=style,
        script=script,
        # In JSON only strings contain "<"; it is escaped, as `</script` would end the script.
        look=json.dumps(document, ensure_ascii=False).replace("<", "\\u003c"),
    )


def bundle(entry: str) -> str:
    """The module `entry` and everything that it imports as one script."""
    return "".join(_wrap_module(name) for name in _dependency_order(entry, ()))


def _dependency_order(name: str, importers: tuple[str, ...]) -> Iterator[str]:
    """The modules that a module imports, directly or not, each once, and then the module itself."""
    if name in importers:
        raise ValueError(f"modules import each other: {' -> '.join((*importers, name))}")
    names: dict[str, None] = {}
    for _, other in IMPORT.findall(_source(name)):
        names.update(dict.fromkeys(_dependency_order(f"{other}.js", (*importers, name))))
    yield from names
    yield name


def _wrap_module(name: str) -> str:
    """A module as an immediately called function; its exports are under the module's name."""
    source = _source(name)
    exports, module = ", ".join(EXPORT.findall(source)), name.removesuffix(".js")
    body = EXPORT.sub("", IMPORT.sub(r"const {\1} = module_\2;\n", DOC_COMMENT.sub("", source)))
    if unsupported := UNSUPPORTED_STATEMENT.search(body):
        raise ValueError(f"{name}: cannot be written into a page: {unsupported[0].strip()}")
    return f"const module_{module} = (() => {{\n{body}return {{ {exports} }};\n}})();\n"


def _source(name: str) -> str:
    return (ASSETS / name).read_text(encoding="utf-8")


def styles(page: Page = SENTENCE_PAGE) -> str:
    """All style sheets of a page as one."""
    return "".join(map(_resolve_style, page.style_sheets))


def _resolve_style(name: str) -> str:
    """A style sheet with its imports replaced by their content."""
    source = STYLE_COMMENT.sub("", _source(name))
    return STYLE_IMPORT.sub(lambda found: _resolve_style(found[1]), source)


def _content_security_policy(script: str, style: str) -> str:
    """A policy that allows the page this script and this style, and no requests."""
    return (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
