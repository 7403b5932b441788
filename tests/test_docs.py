"""The documents name files and pages that exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
CODE_FILE = re.compile(r"`([\w/]+\.py)`")
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
    links = [(page, link) for page in PAGES for link in LINK.findall(page.read_text("utf-8"))]
    assert len(links) > 50
    missing = [f"{page.name}: {link}" for page, link in links if not (page.parent / link).exists()]
    assert not missing, "\n".join(missing)
