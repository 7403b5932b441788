"""Debian's Chromium, or Playwright's own, for the tests that drive a page."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page

from bench.chromium import open_chromium
from regard.errors import SettingsError

AXE = {
    "preload": False,
    "rules": {"label-content-name-mismatch": {"enabled": True}},  # it is experimental there
}


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """A browser; of one module only: Playwright's event loop would be in the way of others."""
    with ExitStack() as stack:
        try:
            browser = stack.enter_context(open_chromium())
        except SettingsError as error:
            pytest.skip(str(error))
        yield browser


@dataclass
class Visit:
    """An open page and what it did."""

    page: Page
    requests: list[str] = field(default_factory=list)
    """The addresses it asked for, itself among them."""
    errors: list[str] = field(default_factory=list)
    """Errors and warnings of its console, and exceptions that nothing caught."""


@contextmanager
def visit(browser: Browser, *, allow: str, **options: object) -> Iterator[Visit]:
    """A fresh page that may ask only for addresses that begin with `allow`.

    `options` are those of Playwright's `new_context`: viewport, colour scheme and so on.
    """
    context = browser.new_context(**options)
    context.set_default_timeout(10_000)
    page = context.new_page()
    seen = Visit(page)
    page.on("request", lambda request: seen.requests.append(request.url))
    page.on(
        "console",
        lambda said: seen.errors.append(said.text) if said.type in ("error", "warning") else None,
    )
    page.on("pageerror", lambda error: seen.errors.append(str(error)))
    context.route(
        "**/*",
        lambda route: route.continue_() if route.request.url.startswith(allow) else route.abort(),
    )
    try:
        yield seen
    finally:
        context.close()


def violations(page: Page) -> list[str]:
    """What axe finds against the Web Content Accessibility Guidelines, with the elements.

    The page's context must have `bypass_csp`: axe writes a style of its own into it.
    """
    found = Axe().run(page, options=AXE).response["violations"]
    return [f"{one['id']}: {node['html']}" for one in found for node in one["nodes"]]
