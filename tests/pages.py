"""The page of `regard serve`, for the tests that drive it."""

from urllib.parse import parse_qs, urlsplit

import httpx
from playwright.sync_api import expect

FRENCH = "Jane visite l'Afrique en septembre."
SEVERAL = f"Elle part. Il dort.\n\n{FRENCH} Nous partons."
"""Four sentences in two lines."""
DESK, PHONE = {"width": 1280, "height": 860}, {"width": 360, "height": 740}

expect.set_options(timeout=20_000)  # for busy machines


def open_page(page, address):
    """Open the page and wait until it has its languages from the server."""
    page.goto(address)
    expect(page.locator("#source option")).not_to_have_count(0)


def write(page, text=FRENCH):
    """Put a text into the page as a link does, so that it is translated without delay."""
    page.evaluate("(text) => { location.hash = new URLSearchParams({ text }); }", text)
    looked(page)


def looked(page):
    """Wait until all is translated and drawn."""
    expect(translation(page)).to_have_attribute("aria-busy", "false")
    expect(translation(page)).not_to_be_empty()
    expect(page.locator("#view .words .word").first).to_be_visible()
    expect(page.locator("#view")).not_to_have_attribute("aria-busy", "true")


def translation(page):
    return page.get_by_role("region", name="The translation")


def readout(page):
    return page.locator("#view .stage .readout")


def notice(page):
    return page.locator("#notice")


def fragment(page):
    return parse_qs(urlsplit(page.url).fragment)


def translated(server, *, alternatives=3):
    """What the server makes of the French sentence; alternatives widen its beam."""
    body = {"q": FRENCH, "source": "fr", "target": "en", "alternatives": alternatives}
    return httpx.post(f"{server}translate", json=body).json()["translatedText"]


def bodies(page, path):
    """A list of the bodies that the page sends to a path from now on."""
    sent = []
    page.on(
        "request",
        lambda request: sent.append(request.post_data_json) if request.url.endswith(path) else None,
    )
    return sent


def answer_once(page, path, **answer):
    """Answer the first request to a path here; the server answers the others."""
    page.route(f"**{path}", lambda route: route.fulfill(**answer), times=1)
