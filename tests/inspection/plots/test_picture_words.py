import numpy as np
import torch
from matplotlib.colors import to_rgb

from regard.inspection.plots.picture_words import (
    DARKEST,
    PATCH_COLOUR,
    highlight,
    plot_picture_patches,
    plot_picture_words,
)
from regard.inspection.recording.attention_map import AttentionMaps, Axis
from regard.inspection.recording.picture_attention import PictureAttention

WORDS = ("a", "red", "square")


def attention():
    weights = torch.zeros(2, 1, 3, 4)  # layers, heads, words, regions of 2 x 2
    weights[0, 0, :, 0], weights[1, 0, :, 3] = 1.0, 1.0
    rows = Axis(WORDS, WORDS, (0, 1, 2))
    labels = ("0,0", "0,1", "1,0", "1,1")
    regions = Axis(labels, labels, (0, 1, 2, 3))
    return PictureAttention(
        AttentionMaps("cross", weights, rows, regions),
        (2, 2),
        np.full((16, 16, 3), 200, np.uint8),
    )


def test_the_picture_is_drawn_once_by_itself_and_once_for_each_word():
    figure = plot_picture_words(attention(), layer=0)
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles == ["", *WORDS]
    pictures = [np.asarray(axes.images[0].get_array()) for axes in figure.axes]
    np.testing.assert_allclose(pictures[0], 200 / 255)
    assert pictures[1][0, 0, 0] > 0.9 * 200 / 255  # the region that was looked at
    assert pictures[1][-1, -1, 0] < 1.1 * DARKEST * 200 / 255
    other = plot_picture_words(attention(), layer=1, theme="dark")
    assert np.asarray(other.axes[1].images[0].get_array())[-1, -1, 0] > 0.7


def test_brightness_is_the_share_of_the_largest_weight():
    pixels = np.full((4, 4, 3), 255, np.uint8)
    bright = highlight(pixels, torch.tensor([[0.2, 0.1], [0.1, 0.0]]))
    assert bright.max() == 1
    np.testing.assert_allclose(bright[-1, -1], DARKEST, atol=1e-6)
    assert (highlight(pixels, torch.zeros(2, 2)) == DARKEST).all()


def test_patches_that_were_looked_at_are_blue_on_black_too():
    seen = torch.tensor([[0.0, 0.04], [0.16, 0.8]])
    pixels = np.zeros((16, 16, 3), np.uint8)
    figure = plot_picture_patches(pixels, [("head 0", seen), ("rollout", seen)], "layer 1")
    plain, *panels = figure.axes
    assert [axes.get_title(loc="left") for axes in panels] == ["head 0", "rollout"]
    assert plain.get_xlabel().startswith("layer 1\n")
    cover = np.asarray(panels[0].images[1].get_array())  # (rows, columns, 4)
    np.testing.assert_allclose(cover[1, 1, :3], to_rgb(PATCH_COLOUR))
    assert 0 == cover[0, 0, 3] < cover[0, 1, 3] < cover[1, 0, 3] < cover[1, 1, 3] < 1
