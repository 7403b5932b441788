import base64
import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from browser import visit
from drawing import made_up
from regard.errors import SettingsError
from regard.inspection.plots.figure import THEMES, get_theme, notebook_html
from regard.inspection.plots.maps import plot_map, view_map

STEPS = np.linspace(0, 1, 64)
# Machado, Oliveira and Fernandes 2009, severity 1.0: what is left of linear red, green and blue.
BLINDNESS = {
    "protan": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deutan": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritan": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}


# Linear RGB -> cones -> lightness, green-red, blue-yellow (Ottosson 2020, Oklab).
LMS_FROM_RGB = np.array(
    [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
)
OKLAB_FROM_LMS = np.array(
    [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
)


def to_oklab(colours):
    rgb = np.array([to_rgb(colour) for colour in colours])
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    return np.cbrt(linear @ LMS_FROM_RGB.T) @ OKLAB_FROM_LMS.T


def lightness(colours):
    return to_oklab([tuple(colour[:3]) for colour in colours])[:, 0]


def seen_with(blindness, colours):
    """Oklab of `colours` as someone sees them who lacks a kind of cone."""
    rgb = np.array(colours)[:, :3]
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    oklab = (linear @ np.array(BLINDNESS[blindness]).T).clip(0, 1)
    back = np.where(oklab <= 0.0031308, 12.92 * oklab, 1.055 * oklab ** (1 / 2.4) - 0.055)
    return to_oklab([tuple(colour) for colour in back.clip(0, 1)])


def contrast(one, other):
    """WCAG 2.2's ratio of relative luminances."""
    light = []
    for colour in (one, other):
        rgb = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
        linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
        light.append(linear @ [0.2126, 0.7152, 0.0722])
    return (max(light) + 0.05) / (min(light) + 0.05)


@pytest.mark.parametrize("name", sorted(THEMES))
def test_lightness_of_the_sequential_map_changes_evenly_from_the_background(name):
    theme = get_theme(name)
    steps = np.diff(lightness(theme.sequential(STEPS)))
    assert (steps < 0).all() if name == "light" else (steps > 0).all()
    assert np.abs(steps).max() < 1.5 * np.abs(steps).min()
    first, background = to_oklab([tuple(theme.sequential(0.0)[:3]), theme.background])
    np.testing.assert_allclose(first, background, atol=0.02)


@pytest.mark.parametrize("name", sorted(THEMES))
@pytest.mark.parametrize("blindness", sorted(BLINDNESS))
def test_colour_maps_are_readable_with_colour_blindness(name, blindness):
    theme = get_theme(name)
    steps = np.diff(seen_with(blindness, theme.sequential(STEPS))[:, 0])
    assert (steps < 0).all() if name == "light" else (steps > 0).all()
    low, high = seen_with(blindness, theme.diverging(np.array([0.15, 0.85])))
    assert np.linalg.norm(low[1:] - high[1:]) > 0.05  # as hues: they are equally light


@pytest.mark.parametrize("name", sorted(THEMES))
def test_diverging_colours_are_symmetric_around_the_background(name):
    theme = get_theme(name)
    light = lightness(theme.diverging(np.linspace(0, 1, 65)))
    np.testing.assert_allclose(light, light[::-1], atol=0.1)
    np.testing.assert_allclose(light[32], to_oklab([theme.background])[0, 0], atol=0.03)


@pytest.mark.parametrize("name", sorted(THEMES))
def test_text_contrasts_with_the_background(name):
    theme = get_theme(name)
    assert contrast(theme.foreground, theme.background) > 7  # WCAG's AAA
    assert contrast(theme.muted, theme.background) > 4.5  # its AA
    assert contrast(theme.accent, theme.background) > 4.5


def test_unknown_themes_are_named():
    with pytest.raises(SettingsError, match="theme: expected light or dark, got 'blue'"):
        get_theme("blue")


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
        return plot_map(view_map(made_up(["Jane", "猫"], ["a", "b"])), theme=theme)

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
