import io

import pytest
import torch
from rich.cells import cell_len
from rich.console import Console

from regard.decoding.tracing.search_tree import Node, SearchTree
from regard.inspection.plots.terminal import HeatMap, WeightBars, render_tree

ROWS = ["Jane", "visits", "Africa"]
COLUMNS = ["Jane", "visite", "l'", "Afrique"]
WEIGHTS = torch.tensor([[0.80, 0.10, 0.10, 0.00], [0.10, 0.60, 0.20, 0.10], [0.0, 0.0, 0.4, 0.6]])


def printed(renderable, width=80, **console):
    file = console.pop("file", None) or io.StringIO()
    Console(file=file, width=width, _environ={}, **console).print(renderable)
    return file.getvalue()


def test_plain_text_is_drawn_in_shades():
    want = """\
        ╭ Jane
        │  ╭ visite
        │  │  ╭ l'
        │  │  │  ╭ Afrique
  Jane ███ ·  ·  ·
visits  · ▓▓▓░░░ ·
Africa  ·  · ▒▒▒▓▓▓

       0  · ░░░▒▒▒▓▓▓███ 0.80
"""
    got = printed(HeatMap(WEIGHTS, ROWS, COLUMNS))
    assert got == want


def test_long_sentences_go_on_below():
    want = """\
        ╭ Jane
        │  ╭ visite
        │  │  ╭ l'
  Jane ███ ·  ·
visits  · ▓▓▓░░░
Africa  ·  · ▒▒▒

        ╭ Afrique
  Jane  ·
visits  ·
Africa ▓▓▓

 0  · ░░░▒▒▒▓▓▓███ 0.80
"""
    assert printed(HeatMap(WEIGHTS, ROWS, COLUMNS), width=23) == want


@pytest.mark.parametrize("width", [20, 40, 80])
@pytest.mark.parametrize("coloured", [True, False])
def test_no_line_is_wider_than_the_terminal(width, coloured):
    words = [f"{'wörter' * (n % 5)}{n}" for n in range(40)]
    file = io.StringIO()
    console = Console(
        file=file, width=width, force_terminal=coloured, color_system="256" if coloured else None
    )
    lines = console.render_lines(HeatMap(torch.rand(7, 40), words[:7], words), pad=False)
    assert max(sum(cell_len(fraction.text) for fraction in line) for line in lines) <= width
    headers = sum("╭" in "".join(fraction.text for fraction in line) for line in lines)
    assert headers == 40


def cells(width=80, **options):
    """Text, ink and ground of each coloured part."""
    console = Console(file=io.StringIO(), width=width, force_terminal=True, _environ={}, **options)
    lines = console.render_lines(HeatMap(WEIGHTS, ROWS, COLUMNS), pad=False)
    return [
        (fraction.text, fraction.style.color.name, fraction.style.bgcolor.get_truecolor().hex)
        for line in lines
        for fraction in line
        if fraction.style and fraction.style.bgcolor
    ]


@pytest.mark.parametrize("system", ["truecolor", "256"])
def test_colours_where_there_are_colours(system):
    found = cells(color_system=system)
    assert len(found) == 3 * 4 + 11  # the weights, and the scale
    assert found[0] == ("   ", "black", "#fde725")  # the largest
    assert found[3] == ("   ", "bright_white", "#440154")
    assert found[12] == ("   ", "bright_white", "#440154")
    assert found[-1] == ("   ", "black", "#fde725")


@pytest.mark.parametrize("console", [{"color_system": "standard"}, {"no_color": True}])
def test_shades_where_colours_are_few_or_unwanted(console):
    console = {"color_system": "truecolor", **console}
    got = printed(HeatMap(WEIGHTS, ROWS, COLUMNS), force_terminal=True, **console)
    assert "███" in got
    assert "48;" not in got


def test_no_color_in_the_environment_is_respected():
    file = io.StringIO()
    console = Console(
        file=file, force_terminal=True, color_system="truecolor", _environ={"NO_COLOR": "1"}
    )
    console.print(HeatMap(WEIGHTS, ROWS, COLUMNS))
    assert "███" in file.getvalue()


def test_wide_letters_keep_the_columns_straight():
    rows, columns = ["猫", "👍", "abc"], ["ネコ", "is"]
    lines = printed(HeatMap(torch.ones(3, 2), rows, columns)).splitlines()
    assert lines[:5] == [
        "     ╭ ネコ",
        "     │  ╭ is",
        " 猫 ██████",
        " 👍 ██████",
        "abc ██████",
    ]


def test_terminals_without_unicode_get_ascii():
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding="ascii")
    Console(file=file, width=80, _environ={}).print(HeatMap(WEIGHTS, ROWS, ["é", *COLUMNS[1:]]))
    file.flush()
    want = """\
        + ?
        |  + visite
        |  |  + l'
        |  |  |  + Afrique
  Jane ### .  .  .
visits  . ***::: .
Africa  .  . +++***

       0  . :::+++***### 0.80
"""
    assert raw.getvalue().decode("ascii") == want


def test_long_words_are_cut_and_odd_ones_made_harmless():
    rows = ["x" * 50, "a\tb\x1b", "می\u200cروم", "1\u00a0000"]
    got = printed(HeatMap(torch.ones(4, 1), rows, ["[bold]" + "y" * 50]))
    assert got.splitlines()[0].endswith("╭ [bold]" + "y" * 17 + "…")
    assert "x" * 25 + "… ███" in got
    assert " a�b� ███" in got
    assert " میروم ███" in got
    assert " 1 000 ███" in got


def test_weights_of_zero_are_rendered():
    got = printed(HeatMap(torch.tensor([[0.0, float("nan")]]), ["a"], ["b", "c"]))
    assert got.splitlines()[2:] == ["a  ·  ·", "", "  0  · ░░░▒▒▒▓▓▓███ 0.00"]
    assert printed(HeatMap(torch.zeros(0, 0), [], [])).strip().endswith("0.00")


def test_weights_must_fit_their_words():
    with pytest.raises(ValueError, match=r"rows by columns, \(4, 3\), got \(3, 4\)"):
        HeatMap(WEIGHTS, COLUMNS, ROWS)


PIECES = ("<s>", "▁Jane", "▁She", "▁visits", "▁Afri", "ca", "</s>", "▁loves", "</s>", "▁In")
NODES = (
    Node(None, 1, 0.0, "kept"),
    Node(0, 5, -0.5, "kept"),  # Jane
    Node(0, 6, -0.25, "kept"),  # She, likelier but listed later
    Node(1, 7, -0.7, "kept"),  # Jane visits
    Node(3, 8, -0.8, "kept"),  # Jane visits Afri
    Node(4, 9, -0.9, "kept"),  # Jane visits Africa
    Node(5, 2, -1.0, "ended"),
    Node(1, 10, -2.0, "kept"),  # Jane loves
    Node(7, 2, -2.5, "ended"),
    Node(0, 11, -9.0, "dropped"),
)


def lines(tree, pieces=PIECES):
    console = Console(width=60, color_system=None)
    with console.capture() as capture:
        console.print(render_tree(tree, pieces))
    return [line.rstrip() for line in capture.get().splitlines()]


def test_a_branch_where_hypotheses_part_the_likeliest_first():
    assert lines(SearchTree(NODES, (6, 8))) == [
        "<s>  and 1 dropped at once",
        "├── She  -0.25",
        "└── Jane  -0.50",
        "    ├── visits Africa</s>  -1.00  1.",
        "    └── loves</s>  -2.50  2.",
    ]


def test_an_answer_that_was_cut_short_ends_where_it_was_cut():
    """At the limit of length the best is answered although it has not ended."""
    nodes = (*NODES[:2], Node(1, 7, -0.7, "kept"), Node(2, 8, -0.8, "kept"))
    assert lines(SearchTree(nodes, (2, 3)), ("<s>", "▁a", "▁b", "▁c")) == [
        "<s>  and 0 dropped at once",
        "└── a b  -0.70  1.",
        "    └── c  -0.80  2.",
    ]


def test_a_space_alone_is_shown():
    nodes = (NODES[0], Node(0, 5, -0.5, "ended"))
    assert lines(SearchTree(nodes, (1,)), ("<s>", "▁"))[1] == "└── ▁  -0.50  1."


def test_a_deep_search_tree_is_rendered():
    count = 3000
    nodes = [NODES[0], *(Node(n, 5, -float(n), "kept") for n in range(count))]
    nodes += [Node(n, 6, -float(n) - 0.5, "kept") for n in range(0, count, 500)]
    shown = lines(SearchTree(tuple(nodes), ()), ["x"] * len(nodes))
    assert len(shown) > 5


def test_weights_of_both_signs_have_a_signed_scale():
    weights = torch.tensor([[0.8, -0.8, 0.1, -0.4]])
    got = printed(HeatMap(weights, ROWS[:1], COLUMNS, normalized=False))
    assert got.splitlines()[4:] == [
        "Jane ███-██ · -▒▒",
        "",
        "     -0.80 -██-▓▓-▒▒-░░ · ░░░▒▒▒▓▓▓███ 0.80",
    ]
    coloured = printed(
        HeatMap(weights, ROWS[:1], COLUMNS, normalized=False),
        force_terminal=True,
        color_system="truecolor",
    )
    assert "48;2;250;210;150" in coloured  # the largest, in orange
    assert "48;2;150;200;240" in coloured  # the least, in blue


def test_bars_of_weights_go_left_and_right():
    bars = WeightBars(torch.tensor([0.5, -0.25, 0.0]), ["1", "13", "21"])
    assert printed(bars, width=25).splitlines() == [
        " 1     │█████████ 0.5000",
        "13 ████│ -0.2500",
        "21     │ 0.0000",
    ]
    plain = printed(WeightBars(torch.tensor([0.25, 0.75]), ["a", "b"]), width=20)
    assert plain.splitlines() == ["a │███ 0.2500", "b │██████████ 0.7500"]
    with pytest.raises(ValueError, match="expected 1 weights, one a label"):
        WeightBars(torch.zeros(2), ["1"])
