import base64
import re
import xml.etree.ElementTree as ET

import pytest
import torch

from browser import visit
from regard.inspection.plots.maps import plot_map
from regard.inspection.plots.notebook import notebook_html

PAGES = {
    "<html><body>{}": "light",
    '<html theme="dark"><body>{}': "dark",
    '<html data-theme="dark"><body>{}': "dark",
    '<html><body data-jp-theme-light="true">{}': "light",
    '<html><body data-jp-theme-light="false">{}': "dark",
    '<html><body class="vscode-light">{}': "light",
    '<html><body class="vscode-body vscode-dark">{}': "dark",
}


@pytest.fixture
def html():
    def draw(theme):
        return plot_map(torch.eye(2), ["Jane", "猫"], ["a", "b"], theme=theme)

    return notebook_html(draw, alt='what "Jane" <saw>')


def test_both_themes_are_whole_pictures(html):
    papers = []
    for content in re.findall(r'src="data:image/svg\+xml;base64,([^"]+)"', html):
        svg = base64.b64decode(content).decode()
        texts = ["".join(text.itertext()).strip() for text in ET.fromstring(svg).iter()]
        assert {"Jane", "猫"} <= set(texts)
        papers.append("#15181d" in svg)
    assert papers == [False, True]
    assert html.count('alt="what &quot;Jane&quot; &lt;saw&gt;"') == 2


def test_a_page_without_styles_shows_the_light_one(html):
    light, dark = re.findall(r"<img [^>]*>", html)
    assert "hidden" not in light
    assert dark.endswith(" hidden>")


@pytest.mark.parametrize("page", PAGES)
def test_a_page_shows_the_picture_that_is_like_itself(chromium, html, page):
    with visit(chromium, allow="data:") as seen:
        seen.page.set_content(page.format(html))
        shown = seen.page.locator("img:visible")
        assert shown.count() == 1
        assert shown.get_attribute("class") == f"regard-{PAGES[page]}"
        assert shown.evaluate("image => image.naturalWidth") > 50
    assert not seen.errors
