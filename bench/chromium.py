"""Debian's Chromium, or Playwright's own, without a window."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from regard.errors import SettingsError

if TYPE_CHECKING:
    from playwright.sync_api import Browser

NAMES = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
FONTS = """<?xml version="1.0"?>
<fontconfig>
  <include ignore_missing="yes">/etc/fonts/fonts.conf</include>
  <dir>{folder}</dir>
</fontconfig>
"""


@contextmanager
def open_chromium() -> Iterator["Browser"]:
    """A browser; a `SettingsError` where there is none.

    Chromium dies where there is no font, so fontconfig is shown matplotlib's.
    """
    import matplotlib
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright, TemporaryDirectory() as place:
        found = next(filter(None, map(shutil.which, NAMES)), playwright.chromium.executable_path)
        if not Path(found).exists():
            raise SettingsError(
                f"no browser: neither {', '.join(NAMES)} on the PATH nor Playwright's own; install "
                "chromium, or run `playwright install chromium`"
            )
        fonts = Path(place, "fonts.conf")
        fonts.write_text(FONTS.format(folder=Path(matplotlib.get_data_path(), "fonts", "ttf")))
        env: dict[str, str | float | bool] = {**os.environ, "FONTCONFIG_FILE": str(fonts)}
        browser = playwright.chromium.launch(executable_path=found, args=ARGUMENTS, env=env)
        yield browser
        browser.close()
