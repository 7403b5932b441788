import numpy as np
import pytest

from regard.evaluation.classification import Confusion
from regard.inspection.plots.confusion import MAX_NUMBERED_CLASSES, plot_confusion
from regard.inspection.plots.figure import save_figure


def written(figure):
    return [text.get_text() for text in figure.axes[0].texts]


def test_cells_have_their_counts_and_rows_their_totals(tmp_path):
    counts = np.array([[7, 2, 0], [0, 120, 8], [0, 0, 0]])
    figure = plot_confusion(Confusion(("a", "b", "c"), counts), theme="dark")
    axes = figure.axes[0]
    assert axes.get_title(loc="left") == "127 of 137 right"
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a (9)", "b (128)", "c (0)"]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["a", "b", "c"]
    assert written(figure) == ["7", "2", "120", "8"]
    shares = axes.collections[0].get_array()
    assert np.asarray(shares).ravel().tolist() == pytest.approx(
        [7 / 9, 2 / 9, 0, 0, 120 / 128, 8 / 128, 0, 0, 0]
    )
    save_figure(figure, tmp_path / "confusion.svg")


def test_many_classes_have_no_numbers():
    size = MAX_NUMBERED_CLASSES + 1
    labels = tuple(map(str, range(size)))
    assert written(plot_confusion(Confusion(labels, np.eye(size, dtype=np.int64)))) == []


def test_a_long_label_leaves_room_for_the_number_of_its_examples():
    labels = ("the name of a class that is long", "b")
    figure = plot_confusion(Confusion(labels, np.array([[1200, 34], [0, 5]])))
    long, short = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert long.startswith("the name")
    assert long.endswith("… (1,234)")
    assert short == "b (5)"
