"""The viewer, for the tests that drive it."""

import re
from contextlib import contextmanager

from browser import visit
from regard.inspection.viewer.html_page import render_page

PHONE = {"width": 360, "height": 740}
SHORT = "la mer est calme ce soir", "the sea is calm this evening"


@contextmanager
def opened(chromium, folder, document, **options):
    """The page of a document, offline; it must request nothing else and log no errors."""
    path = folder / "look.html"
    path.write_text(render_page(document), encoding="utf-8")
    with visit(chromium, allow=path.as_uri(), **options) as seen:
        seen.page.context.set_offline(True)
        seen.page.goto(path.as_uri())
        yield seen.page
        assert seen.requests == [path.as_uri()]
        assert seen.errors == []


def word(page, side, text):
    return page.locator(f".{side} .word").filter(has_text=re.compile(rf"^{re.escape(text)}"))


def readout(page):
    return page.locator(".stage .readout")


def head(page, layer, number):
    return page.locator(f'.head[data-layer="{layer}"][data-head="{number}"]')
