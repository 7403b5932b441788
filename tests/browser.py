"""Debian's Chromium, or Playwright's own, for the tests that drive a page."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, Route

from bench.chromium import open_chromium
from regard.errors import SettingsError

AXE = {
    "preload": False,
    "rules": {"label-content-name-mismatch": {"enabled": True}},  # it is experimental there
}


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """A browser for one module: Playwright's event loop would disturb tests of others."""
    with ExitStack() as stack:
        try:
            browser = stack.enter_context(open_chromium())
        except SettingsError as error:
            pytest.skip(str(error))
        yield browser
        _TABS.clear()


@dataclass
class Visit:
    """An open page and what it did."""

    page: Page
    allow: str
    """The prefix of the addresses that it may request."""
    requests: list[str] = field(default_factory=list)
    """The addresses it requested, its own included."""
    errors: list[str] = field(default_factory=list)
    """Errors and warnings of its console, and exceptions that nothing caught."""


_TABS: dict[tuple[Browser, str], Visit] = {}
"""Empty tabs to reuse, by browser and options: opening one takes longer than showing a page."""


@contextmanager
def visit(browser: Browser, *, allow: str, **options: object) -> Iterator[Visit]:
    """A fresh page that may ask only for addresses that begin with `allow`.

    `options` are those of Playwright's `new_context`: viewport, colour scheme and so on. Pages from
    files reuse tabs; a page of a server gets a new context with its own caches.
    """
    kept = None if allow.startswith("http") else (browser, repr(sorted(options.items())))
    seen = (_TABS.pop(kept, None) if kept else None) or _open_tab(browser, options)
    seen.allow = allow
    try:
        yield seen
    finally:
        if kept is None:
            seen.page.context.close()
        else:
            _empty_tab(seen)
            _TABS[kept] = seen


def _open_tab(browser: Browser, options: dict[str, object]) -> Visit:
    context = browser.new_context(**options)
    context.set_default_timeout(10_000)
    page = context.new_page()
    seen = Visit(page, "")
    page.on("request", lambda request: seen.requests.append(request.url))
    page.on(
        "console",
        lambda said: seen.errors.append(said.text) if said.type in ("error", "warning") else None,
    )
    page.on("pageerror", lambda error: seen.errors.append(str(error)))

    def route(asked: Route) -> None:
        if asked.request.url.startswith(seen.allow):
            asked.continue_()
        else:
            asked.abort()

    context.route("**/*", route)
    return seen


def _empty_tab(seen: Visit) -> None:
    """Clear what a page has stored, and move the mouse away."""
    seen.page.evaluate("() => { try { localStorage.clear() } catch {} }")
    seen.page.goto("about:blank")
    seen.page.mouse.move(0, 0)
    seen.page.context.set_offline(False)
    seen.requests, seen.errors = [], []


def violations(page: Page) -> list[str]:
    """What axe finds against the Web Content Accessibility Guidelines, with the elements.

    The page's context must have `bypass_csp`: axe writes a style of its own into it.
    """
    found = Axe().run(page, options=AXE).response["violations"]
    return [f"{one['id']}: {node['html']}" for one in found for node in one["nodes"]]
