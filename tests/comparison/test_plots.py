import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from ladders import made_up_ladder, made_up_standing
from regard.comparison.plots import (
    COLOURS,
    POINT_PADDING,
    plot_by_length,
    plot_quality_cost,
    space_labels,
)
from regard.comparison.results import MeanInterval
from regard.inspection.plots.maps import save_figure

LABEL_POINTS = (
    "rnn",
    "rnnsearch",
    "luong",
    "deep-att",
    "gnmt",
    "bytenet",
    "convs2s",
    "moe",
    "top",
    "x$y$",
)


@pytest.fixture(scope="module")
def results():
    """Ten systems, of which two attend to nothing, nearly all as good and as dear as another."""
    return made_up_ladder(
        *(
            made_up_standing(
                name,
                [37 + number / 9],
                [39 + number / 9 - fall for fall in (0, 1, 2, 3)],
                attends=name not in ("rnn", "bytenet"),
                flops=4e15 * (1 + number / 40),
            )
            for number, name in enumerate(LABEL_POINTS)
        ),
        made_up_standing("lost", [], ()),
        best="top",
    )


def named(figure):
    """The annotations of a figure, by what they say."""
    return {
        text.get_text(): text for text in figure.axes[0].texts if text.get_text() in LABEL_POINTS
    }


def assert_apart(figure):
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    boxes = [  # of the words alone, without the line that leads to them
        Text.get_window_extent(text, canvas.get_renderer()) for text in named(figure).values()
    ]
    assert len(boxes) == len(LABEL_POINTS)
    for number, box in enumerate(boxes):
        assert not box.count_overlaps(boxes[:number]), list(named(figure))[number]


def test_a_line_for_each_system_with_its_name_beside_it(results):
    figure = plot_by_length(results)
    lines = figure.axes[0].lines
    assert len(lines) == len(LABEL_POINTS)
    assert list(lines[2].get_ydata()) == pytest.approx(results.standings[2].by_length)
    assert list(lines[2].get_xdata()) == [7.6, 10.5, 12.9, 18.1]
    assert [line.get_linestyle() for line in lines] == [
        "--" if name in ("rnn", "bytenet") else "-" for name in LABEL_POINTS
    ]
    assert_apart(figure)
    assert named(figure)["luong"].get_color() == lines[2].get_color()


def test_a_point_for_each_system_with_its_name_beside_it(results):
    figure = plot_quality_cost(results)
    points = figure.axes[0].lines
    assert [(point.get_xdata()[0], point.get_ydata()[0]) for point in points] == [
        (one.rows[0].flops, one.bleu.mean) for one in results.standings if one.rows
    ]
    hollow = [point.get_markerfacecolor() == "white" for point in points]
    assert hollow == [name in ("rnn", "bytenet") for name in LABEL_POINTS]
    assert figure.axes[0].get_xscale() == "log"
    assert_apart(figure)


def test_no_line_to_a_name_runs_across_another_point():
    found = {
        "multi30k-rnn": (818e12, 22.5, 23.7, 24.8),
        "multi30k-deep-att": (2.215e15, 33.7, 35.3, 36.8),
        "multi30k-gnmt": (1.955e15, 33.3, 34.9, 36.5),
        "multi30k-convs2s": (431e12, 37.4, 39.0, 40.5),
    }
    systems = [
        made_up_standing(name, [bleu], (30,) * 4, flops=flops).model_copy(
            update={"interval": MeanInterval(low=low, high=high)}
        )
        for name, (flops, low, bleu, high) in found.items()
    ]
    figure = plot_quality_cost(made_up_ladder(*systems))
    FigureCanvasAgg(figure).draw()
    (axes,) = figure.axes
    assert len(axes.texts) == len(found)
    for own in axes.texts:
        if own.arrow_patch is None:
            continue
        line = own.arrow_patch.get_path().transformed(own.arrow_patch.get_transform())
        for other in set(axes.texts) - {own}:
            x, y = axes.transData.transform(other.xy)
            assert not line.intersects_bbox(
                Bbox([[x, y], [x, y]]).padded(POINT_PADDING), filled=False
            )


def test_lines_look_unlike(results):
    lines = plot_by_length(results).axes[0].lines
    assert len({(line.get_color(), line.get_marker()) for line in lines}) == len(LABEL_POINTS)
    many = [made_up_standing(f"s{n}", [30.0], (30,) * 4) for n in range(len(COLOURS) + 3)]
    again = plot_by_length(made_up_ladder(*many, best="s0")).axes[0].lines
    assert len({(line.get_color(), line.get_marker()) for line in again}) == len(many)


def test_a_note_only_where_it_says_something(results):
    texts = [text.get_text() for text in plot_by_length(results).axes[0].texts]
    assert "dashed: without attention to the source" in texts
    alike = made_up_ladder(made_up_standing("a", [30.0], (30,) * 4), best="a")
    for plot in (plot_by_length, plot_quality_cost):
        assert [text.get_text() for text in plot(alike).axes[0].texts] == ["a"]


def test_both_are_written(results, tmp_path):
    for plot in (plot_by_length, plot_quality_cost):
        for ending in (".png", ".svg"):
            path = tmp_path / f"{plot.__name__}{ending}"
            save_figure(plot(results), path)
            assert path.stat().st_size > 5_000
    assert "x$y$" in (tmp_path / "plot_by_length.svg").read_text()


@pytest.mark.parametrize(
    ("places", "wanted"),
    [
        ([], []),
        ([5.0], [5.0]),
        ([0.0, 10.0], [0.0, 10.0]),
        ([4.0, 4.0], [3.0, 5.0]),
        ([0.0, 0.0, 0.0, 9.0], [-2.0, 0.0, 2.0, 9.0]),
        ([0.0, 1.0, 2.5], [-5 / 6, 7 / 6, 19 / 6]),
    ],
)
def test_places_move_apart_and_no_further(places, wanted):
    assert space_labels(places, 2.0) == pytest.approx(wanted)


@pytest.mark.parametrize(
    ("places", "wanted"),
    [
        ([0.0, 0.0, 0.0, 9.0], [0.0, 2.0, 4.0, 9.0]),
        ([1.0, 9.0, 9.5, 10.0], [1.0, 6.0, 8.0, 10.0]),
        ([0.0, 0.0, 1.5, 9.0, 10.0], [0.0, 2.0, 4.0, 8.0, 10.0]),
        ([-3.0, 20.0], [0.0, 10.0]),
    ],
)
def test_places_stay_between_bounds(places, wanted):
    assert space_labels(places, 2.0, low=0.0, high=10.0) == pytest.approx(wanted)
