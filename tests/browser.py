"""Debian's Chromium, or Playwright's own, for the tests that drive a page."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import matplotlib
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
AXE = {
    "preload": False,
    "rules": {"label-content-name-mismatch": {"enabled": True}},  # it is experimental there
}
FONTS = """<?xml version="1.0"?>
<fontconfig>
  <include ignore_missing="yes">/etc/fonts/fonts.conf</include>
  <dir>{folder}</dir>
</fontconfig>
"""


@pytest.fixture(scope="session")
def fonts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What fontconfig reads: Chromium dies where there is no font, so it is given matplotlib's."""
    file = tmp_path_factory.mktemp("fonts") / "fonts.conf"
    file.write_text(FONTS.format(folder=Path(matplotlib.get_data_path(), "fonts", "ttf")))
    return file


@pytest.fixture(scope="module")
def chromium(fonts: Path) -> Iterator[Browser]:
    """A browser; of one module only: Playwright's event loop would be in the way of others."""
    with sync_playwright() as playwright:
        found = next(filter(None, map(shutil.which, NAMES)), playwright.chromium.executable_path)
        if not Path(found).exists():
            pytest.skip(
                f"no browser: neither {', '.join(NAMES)} on the PATH nor Playwright's own; install "
                "chromium, or run `playwright install chromium`"
            )
        env = {**os.environ, "FONTCONFIG_FILE": str(fonts)}
        browser = playwright.chromium.launch(executable_path=found, args=ARGUMENTS, env=env)
        yield browser
        browser.close()


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
