"""The documents name files, pages and headings that exist; every chapter of the tour runs."""

import ast
import importlib
import re
import runpy
import xml.etree.ElementTree as ET
from itertools import pairwise
from pathlib import Path

import pytest

from regard.models.build import FAMILIES

ROOT = Path(__file__).parents[1]
CHAPTERS = sorted((ROOT / "docs" / "tour").glob("*.py"))
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *CHAPTERS])
CODE_FILE = re.compile(r"`([\w/]+\.py)`")
FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
HEADING = re.compile(r"^(?:# )?#+ (.+)$", re.MULTILINE)
ANCHOR = re.compile(r"\]\(([^)#:\s]*)#([^)\s]+)\)")
LINK = re.compile(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)")


def test_python_files_in_backticks_exist():
    """By their path in the repository or in the package."""
    named = [(page, name) for page in PAGES for name in CODE_FILE.findall(page.read_text("utf-8"))]
    assert len(named) > 30
    missing = [
        f"{page.relative_to(ROOT)}: {name}"
        for page, name in named
        if not (ROOT / name).is_file() and not (ROOT / "src" / "regard" / name).is_file()
    ]
    assert not missing, "\n".join(missing)


def test_links_between_pages_lead_somewhere():
    links = [(page, link) for page in PAGES for link in LINK.findall(_prose(page))]
    assert len(links) > 50
    missing = [f"{page.name}: {link}" for page, link in links if not (page.parent / link).exists()]
    assert not missing, "\n".join(missing)


def test_links_to_headings_lead_to_one():
    links = [(page, *link) for page in PAGES for link in ANCHOR.findall(_prose(page))]
    assert len(links) > 30
    missing = [
        f"{page.name}: {name}#{anchor}"
        for page, name, anchor in links
        if anchor not in _anchors(page.parent / name if name else page)
    ]
    assert not missing, "\n".join(missing)


def _prose(page):
    """The text of a page; of a chapter without its code, where `table[name](x)` is no link."""
    text = page.read_text("utf-8")
    return "\n".join(re.findall(r"^# .*", text, re.MULTILINE)) if page.suffix == ".py" else text


def _anchors(page):
    """The names that GitHub and the site give to the headings of a page."""
    headings = HEADING.findall(FENCE.sub("", page.read_text("utf-8")))
    return {re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for text in headings}


def test_no_formula_of_a_chapter_is_broken_into_a_list():
    """A line that begins with a plus or a minus is an item, also in the middle of a formula."""
    lines = [(path.name, *pair) for path in CHAPTERS for pair in pairwise(_lines(path))]
    assert len(lines) > 3000
    assert not [line for line in lines if re.match("# [-+*] ", line[2]) and line[1].count("$") % 2]


def _lines(page):
    return page.read_text("utf-8").splitlines()


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda path: path.stem)
def test_a_chapter_of_the_tour_runs_and_compares_what_it_says(chapter):
    """The page is what its script prints, and its assertions hold it to the lectures' numbers."""
    nodes = list(ast.walk(ast.parse(chapter.read_text("utf-8"))))
    assert sum(isinstance(node, ast.Assert) for node in nodes) >= 5
    runpy.run_path(str(chapter))


def test_the_sheet_has_a_drawing_of_every_translator_and_is_well_formed(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    module = importlib.import_module("site_build.system_sheet")
    assert set(FAMILIES) <= set(module.CARDS) == set(module.DRAWINGS)
    markup = re.search(r"<div.*</div>", module.sheet(), re.DOTALL)[0]
    drawings = ET.fromstring(markup).findall("section/svg")
    assert len(drawings) == len(module.CARDS)
    assert all(len(drawing) > 10 and drawing.get("aria-label") for drawing in drawings)
