"""Formulas as MathML, which browsers set themselves: no script runs and nothing is fetched."""

import xml.etree.ElementTree as ET
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator

FUNCTIONS = {"cos", "exp", "ln", "log", "sin", "tanh"}
OPERANDS = {"mi", "mn", "msub", "msup", "msubsup", "mfrac", "msqrt", "mrow"}
NAMESPACE = "http://www.w3.org/1998/Math/MathML"
ET.register_namespace("", NAMESPACE)


def to_mathml(formula: str, display: str = "inline") -> str:
    """A formula of TeX; between a function and its neighbours is a thin space, as TeX sets it."""
    root = ET.fromstring(convert(formula, display=display))
    for parent in list(root.iter()):
        if _tag(parent) in {"mrow", "mtd"}:
            _space_functions(parent)
    return ET.tostring(root, encoding="unicode")


def _space_functions(parent: ET.Element) -> None:
    children = list(parent)
    for place in range(len(children) - 1, 0, -1):  # between two: from the last on
        pair = children[place - 1 : place + 1]
        operands = all(_tag(one) in OPERANDS for one in pair)
        if operands and any(_is_function(one) for one in pair):
            parent.insert(place, ET.Element(f"{{{NAMESPACE}}}mspace", width="0.17em"))


def _is_function(node: ET.Element) -> bool:
    first = node[0] if _tag(node) in {"msub", "msup"} else node
    return first.text in FUNCTIONS


def _tag(node: ET.Element) -> str:
    return node.tag.removeprefix(f"{{{NAMESPACE}}}")


def visit_inline(translator: HTML5Translator, node: nodes.math) -> None:
    """A formula inside a line."""
    translator.body.append(to_mathml(node.astext()))
    raise nodes.SkipNode


def visit_block(translator: HTML5Translator, node: nodes.math_block) -> None:
    """A formula on lines of its own; a wide one scrolls."""
    formula = to_mathml(node.astext(), display="block")
    # a region that scrolls can be reached by keyboard
    translator.body.append(f'<div class="formula" tabindex="0">{formula}</div>\n')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
