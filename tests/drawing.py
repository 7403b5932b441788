"""Shared by tests of figures: attention to draw, and readers of what was drawn."""

import xml.etree.ElementTree as ET

import numpy as np
import pytest
import torch
from PIL import Image

from regard.inspection.plots import fonts
from regard.inspection.plots.figure import save_figure
from regard.inspection.recording.attention_map import AttentionMaps, Axis

SVG = "{http://www.w3.org/2000/svg}"


def made_up(rows, columns, *, part="cross", layers=2, heads=3):
    """Random attention between words; a number stands for so many words w0, w1, …"""
    torch.manual_seed(0)
    sides = [
        tuple(f"w{n}" for n in range(side)) if isinstance(side, int) else tuple(side)
        for side in (rows, columns)
    ]
    weights = (2 * torch.randn(layers, heads, *map(len, sides))).softmax(-1)
    return AttentionMaps(
        part, weights, *(Axis(side, side, tuple(range(len(side)))) for side in sides)
    )


@pytest.fixture
def no_fonts(monkeypatch):
    """A machine with no font but matplotlib's own, and no warning given yet."""
    found = fonts.fonts_for, fonts._missing_characters, fonts._warn_missing_script
    monkeypatch.setattr(fonts, "_find_font", lambda letter: None)
    for function in found:
        function.cache_clear()
    yield
    for function in found:
        function.cache_clear()


def words_in(figure, tmp_path):
    """All texts of the SVG file of a figure, in the order in which they are drawn."""
    save_figure(figure, tmp_path / "figure.svg")
    return words_of(tmp_path / "figure.svg")


def words_of(path):
    return ["".join(text.itertext()).strip() for text in ET.parse(path).iter(f"{SVG}text")]


def pixels_in(figure, tmp_path):
    """Red, green and blue of the PNG file of a figure: (height, width, 3), from 0 to 255."""
    save_figure(figure, tmp_path / "figure.png")
    return pixels_of(tmp_path / "figure.png")


def pixels_of(path):
    with Image.open(path) as image:
        return np.asarray(image.convert("RGB")).astype(int)
