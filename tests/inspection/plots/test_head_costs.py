import pytest
import torch

from regard.errors import SettingsError
from regard.inspection.plots.head_costs import plot_head_costs

COSTS = {
    "encoder": torch.tensor([[0.04, -0.3, 2.0]]),
    "cross": torch.tensor([[1.0, 8.0], [0.0, 4.1]]),
}


def numbers(axes):
    return [text.get_text() for text in axes.texts]


def names(axes):
    return [label.get_text() for label in axes.get_yticklabels()]


def test_a_panel_for_each_part_with_its_numbers():
    encoder, cross, _ = plot_head_costs(COSTS, title="worth").axes
    assert numbers(encoder) == ["0", "-0.3", "2.0"]
    assert numbers(cross) == ["1.0", "8.0", "0", "4.1"]
    assert names(encoder) == ["encoder 0"]
    assert names(cross) == ["cross 0", "cross 1"]
    assert [label.get_text() for label in encoder.get_xticklabels()] == [
        "head 0",
        "head 1",
        "head 2",
    ]
    assert encoder.get_title(loc="left") == "worth"


def test_all_parts_share_one_scale_from_nothing():
    encoder, cross, _ = plot_head_costs(COSTS).axes
    for axes in (encoder, cross):
        assert axes.collections[0].norm.vmin == 0
        assert axes.collections[0].norm.vmax == 8
    assert encoder.collections[0].get_array().min() == 0


def test_numbers_are_readable_on_their_ground():
    _, cross, _ = plot_head_costs(COSTS).axes
    pale, dark = (cross.texts[place].get_color() for place in (0, 1))
    assert pale != dark


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_themes(theme):
    assert plot_head_costs(COSTS, theme=theme).axes
    assert plot_head_costs({"cross": torch.zeros(1, 1)}, theme=theme).axes


def test_an_unknown_theme():
    with pytest.raises(SettingsError, match="theme: expected light or dark"):
        plot_head_costs(COSTS, theme="blue")
