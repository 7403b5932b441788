"""The colours of every figure: light or dark, and readable whatever colours the eye sees."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt
from matplotlib.colors import Colormap, LinearSegmentedColormap, to_rgb

from regard.errors import SettingsError

ThemeName = Literal["light", "dark"]
Array = npt.NDArray[np.float64]

NUM_COLOURS = 256
"""Of a ramp."""
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
"""Linear red, green, blue -> cones -> lightness, green-red, blue-yellow: Oklab, a space whose
distances are about those that people see (Björn Ottosson 2020, bottosson.github.io/posts/oklab)."""


@dataclass(frozen=True, eq=False)
class Theme:
    """What a figure is drawn with."""

    background: str
    """Behind everything."""
    foreground: str
    """Words."""
    muted: str
    """What matters less: numbers, captions, what was dropped."""
    border: str
    """Thin lines around and between."""
    accent: str
    """What is to be seen first."""
    sequential: Colormap
    """From nothing, which is paper, to all: for weights."""
    grey: Colormap
    """The same without colour: for weights that mean nothing."""
    diverging: Colormap
    """From one side through nothing, which is paper, to the other: for numbers with a sign."""


def to_oklab(colours: Sequence[str]) -> Array:
    """Lightness, green-red and blue-yellow of some colours: (N, 3)."""
    rgb = np.array([to_rgb(colour) for colour in colours])
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    oklab: Array = np.cbrt(linear @ LMS_FROM_RGB.T) @ OKLAB_FROM_LMS.T
    return oklab


def from_oklab(oklab: Array) -> Array:
    """Red, green and blue from 0 to 1 of colours (N, 3) in Oklab; those no screen has are cut."""
    linear = (oklab @ np.linalg.inv(OKLAB_FROM_LMS).T) ** 3 @ np.linalg.inv(LMS_FROM_RGB).T
    linear = linear.clip(0, 1)
    rgb: Array = np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
    return rgb.clip(0, 1)


def uniform_colormap(name: str, colours: Sequence[str]) -> Colormap:
    """A ramp through `colours`, which grow ever lighter or darker, whose lightness grows evenly."""
    oklab = to_oklab(colours)  # (N, 3)
    lightness = oklab[:, 0]
    places = (lightness - lightness[0]) / (lightness[-1] - lightness[0])  # (N,) from 0 to 1
    steps = np.linspace(0, 1, NUM_COLOURS)
    between = np.stack([np.interp(steps, places, column) for column in oklab.T], axis=-1)
    return LinearSegmentedColormap.from_list(name, list(from_oklab(between)), N=NUM_COLOURS)


def diverging_colormap(name: str, low: Colormap, high: Colormap) -> Colormap:
    """A ramp from the end of `low` through the beginning of both to the end of `high`."""
    steps = np.linspace(0, 1, NUM_COLOURS // 2)
    shades = [*low(steps[::-1]), *high(steps)]
    return LinearSegmentedColormap.from_list(name, shades, N=NUM_COLOURS)


def get_theme(name: str) -> Theme:
    """The theme called `name`."""
    if name not in THEMES:
        raise SettingsError(f"theme: expected {' or '.join(THEMES)}, got {name!r}")
    return THEMES[name]


_light_blue = uniform_colormap("regard-light", ("#ffffff", "#5b9fd4", "#08306b"))
THEMES: dict[str, Theme] = {
    "light": Theme(
        background="#ffffff",
        foreground="#1b1f24",
        muted="#667079",
        border="#aab2ba",
        accent="#0b57a4",
        sequential=_light_blue,
        grey=uniform_colormap("regard-grey-light", ("#ffffff", "#5a6066")),
        diverging=diverging_colormap(
            "regard-balance-light",
            _light_blue,
            uniform_colormap("regard-light-orange", ("#ffffff", "#e39a3b", "#6b3000")),
        ),
    ),
    "dark": Theme(
        background="#15181d",
        foreground="#e8ebee",
        muted="#98a2ac",
        border="#4c555e",
        accent="#8fd0ff",
        sequential=uniform_colormap("regard-dark", ("#15181d", "#245f9e", "#68b4e8", "#f4fbe0")),
        grey=uniform_colormap("regard-grey-dark", ("#15181d", "#b4babf")),
        diverging=diverging_colormap(
            "regard-balance-dark",
            uniform_colormap("regard-dark-blue", ("#15181d", "#2f7fc4", "#bfe3ff")),
            uniform_colormap("regard-dark-orange", ("#15181d", "#b96f14", "#ffdcae")),
        ),
    ),
}
assert set(THEMES) == set(get_args(ThemeName))
