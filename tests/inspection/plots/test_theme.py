import numpy as np
import pytest

from regard.errors import SettingsError
from regard.inspection.plots.theme import THEMES, from_oklab, get_theme, to_oklab, uniform_colormap

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


def test_oklab_is_that_of_its_author():
    # white and pure red, from the table of the article
    np.testing.assert_allclose(to_oklab(["#ffffff"]), [[1, 0, 0]], atol=1e-6)
    np.testing.assert_allclose(to_oklab(["#ff0000"]), [[0.628, 0.225, 0.126]], atol=1e-3)
    colours = ["#0b57a4", "#d98200", "#15181d"]
    there = [tuple(colour) for colour in from_oklab(to_oklab(colours))]
    np.testing.assert_allclose(to_oklab(there), to_oklab(colours), atol=1e-6)


@pytest.mark.parametrize("name", sorted(THEMES))
def test_lightness_of_a_ramp_changes_evenly_from_the_paper_on(name):
    theme = get_theme(name)
    steps = np.diff(lightness(theme.sequential(STEPS)))
    assert (steps < 0).all() if name == "light" else (steps > 0).all()
    assert np.abs(steps).max() < 1.5 * np.abs(steps).min()
    first, background = to_oklab([tuple(theme.sequential(0.0)[:3]), theme.background])
    np.testing.assert_allclose(first, background, atol=0.02)


@pytest.mark.parametrize("name", sorted(THEMES))
@pytest.mark.parametrize("blindness", sorted(BLINDNESS))
def test_ramps_are_read_without_a_kind_of_cone(name, blindness):
    theme = get_theme(name)
    steps = np.diff(seen_with(blindness, theme.sequential(STEPS))[:, 0])
    assert (steps < 0).all() if name == "light" else (steps > 0).all()
    low, high = seen_with(blindness, theme.diverging(np.array([0.15, 0.85])))
    assert np.linalg.norm(low[1:] - high[1:]) > 0.05  # as hues: they are equally light


@pytest.mark.parametrize("name", sorted(THEMES))
def test_both_sides_of_a_balance_are_alike_and_meet_in_the_paper(name):
    theme = get_theme(name)
    light = lightness(theme.diverging(np.linspace(0, 1, 65)))
    np.testing.assert_allclose(light, light[::-1], atol=0.1)
    np.testing.assert_allclose(light[32], to_oklab([theme.background])[0, 0], atol=0.03)


@pytest.mark.parametrize("name", sorted(THEMES))
def test_words_stand_out_from_the_paper(name):
    theme = get_theme(name)
    assert contrast(theme.foreground, theme.background) > 7  # WCAG's AAA
    assert contrast(theme.muted, theme.background) > 4.5  # its AA
    assert contrast(theme.accent, theme.background) > 4.5


def test_a_ramp_goes_through_its_colours():
    sequential = uniform_colormap("there", ["#ffffff", "#5b9fd4", "#08306b"])
    ends = from_oklab(to_oklab(["#ffffff", "#08306b"]))
    np.testing.assert_allclose(sequential(np.array([0.0, 1.0]))[:, :3], ends, atol=1e-3)
    assert np.abs(sequential(STEPS)[:, :3] - from_oklab(to_oklab(["#5b9fd4"]))).max(-1).min() < 0.02


def test_unknown_themes_are_named():
    with pytest.raises(SettingsError, match="theme: expected light or dark, got 'blue'"):
        get_theme("blue")
