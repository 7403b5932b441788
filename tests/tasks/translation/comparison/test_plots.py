import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from ladders import made_up_ladder, made_up_standing
from regard.comparison.plots import COLOURS
from regard.tasks.translation.comparison.plots import plot_by_length, plot_quality_cost

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
    """Ten systems of similar scores and costs, two of which do not attend, and one that failed."""
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
    """The texts of the legend, by the names of systems."""
    return {text.get_text(): text for text in figure.axes[0].get_legend().get_texts()}


def test_a_line_for_each_system_and_its_name_in_the_legend(results):
    figure = plot_by_length(results)
    lines = figure.axes[0].lines
    assert len(lines) == len(LABEL_POINTS)
    assert list(lines[2].get_ydata()) == pytest.approx(results.standings[2].by_length)
    assert list(lines[2].get_xdata()) == [7.6, 10.5, 12.9, 18.1]
    assert [line.get_linestyle() for line in lines] == [
        "--" if name in ("rnn", "bytenet") else "-" for name in LABEL_POINTS
    ]
    assert list(named(figure)) == list(reversed(LABEL_POINTS))  # as they end, from the top
    assert named(figure)["luong"].get_color() == lines[2].get_color()


def test_a_point_for_each_system_and_its_name_in_the_legend(results):
    figure = plot_quality_cost(results)
    points = figure.axes[0].lines
    assert [(point.get_xdata()[0], point.get_ydata()[0]) for point in points] == [
        (one.rows[0].flops, one.bleu.mean) for one in results.standings if one.rows
    ]
    hollow = [point.get_markerfacecolor() == "white" for point in points]
    assert hollow == [name in ("rnn", "bytenet") for name in LABEL_POINTS]
    assert figure.axes[0].get_xscale() == "log"
    assert list(named(figure)) == list(reversed(LABEL_POINTS))


def test_imported_systems_alone_have_lines_without_a_cost():
    imported = made_up_standing("imported", [30.0], (30,) * 4, flops=0.0)
    figure = plot_quality_cost(made_up_ladder(imported, best="imported"))
    assert [list(line.get_ydata()) for line in figure.axes[0].lines] == [[30.0, 30.0]]
    FigureCanvasAgg(figure).draw()


@pytest.mark.parametrize("plot", [plot_by_length, plot_quality_cost])
def test_the_legend_is_inside_the_figure_and_outside_the_axes(results, plot):
    figure = plot(results)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    box = figure.axes[0].get_legend().get_window_extent(canvas.get_renderer())
    assert box.x0 >= figure.axes[0].get_window_extent().x1
    assert box.y0 >= 0
    assert box.y1 <= figure.bbox.y1


def test_systems_differ_in_colour_or_marker(results):
    lines = plot_by_length(results).axes[0].lines
    assert len({(line.get_color(), line.get_marker()) for line in lines}) == len(LABEL_POINTS)
    many = [made_up_standing(f"s{n}", [30.0], (30,) * 4) for n in range(len(COLOURS) + 3)]
    again = plot_by_length(made_up_ladder(*many, best="s0")).axes[0].lines
    assert len({(line.get_color(), line.get_marker()) for line in again}) == len(many)


def test_models_without_attention_have_a_footnote(results):
    texts = [text.get_text() for text in plot_by_length(results).axes[0].texts]
    assert "dashed: without attention to the source" in texts
    alike = made_up_ladder(made_up_standing("a", [30.0], (30,) * 4), best="a")
    for plot in (plot_by_length, plot_quality_cost):
        assert list(plot(alike).axes[0].texts) == []
