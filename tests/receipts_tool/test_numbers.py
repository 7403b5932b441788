import pytest

from docs.receipts_tool.numbers import (
    Number,
    chapter_figures,
    chapter_text,
    find_numbers,
    parse_value,
    read_sections,
)


def shown(block):
    return [f"{number}{'' if number.measured else '?'}" for number in find_numbers(block)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("98.30 % of 1,600, in 3 min 53 s", ["98.30%", "1,600", "3min", "53s"]),
        ("a beam of 5, seed 1. 41.02 is published", ["5?", "1?", "41.02"]),
        (
            "−3.1e-4 (+2.1e-4), 1.06M, 2 × 2, 12 ×",
            ["−3.1e-4", "+2.1e-4", "1.06M", "2?", "2?", "12×"],
        ),
        ("GPT-2, int8, 13a, version 2.6.0, x_1, 1200th", []),
        ("Vaswani et al. 2017, 2026-11-15, 18:00, section 5.1, arXiv 1905.10650", []),
        ("`--beam 5` and [a link](page.md#12) <img width='420'>", []),
        ("| `5` | 562 | **9.1** (3 … 4) | 2 layers |", ["562", "9.1", "3", "4", "2?"]),
    ],
)
def test_what_is_a_number_and_which_are_measured(text, found):
    assert shown(text) == found


def test_a_page_has_sections_and_blocks_and_of_code_what_is_told_there():
    page = (
        "# A\nbeside 1\n\n- 2\n- 3\n  4\n\n1. five\n\n```\nregard x 8  # 9.5\n```\n\n"
        "```\n$ regard y 10\n11\n```\n\n## A\n\n|a|\n|-|\n|12|\n\n# C\nnothing\n"
    )
    found = [
        (one.anchor, [list(map(str, block)) for block in one.blocks]) for one in read_sections(page)
    ]
    assert found == [
        ("", []),
        ("a", [["1"], ["2"], ["3", "4"], ["9.5"], ["11"]]),
        ("a-1", [["12"]]),
        ("c", []),
    ]


@pytest.mark.parametrize(
    ("here", "there", "same"),
    [("1.9", "1.95", True), ("56", "56.3", True), ("57", "56.3", False), ("56.3", "56", False),
     ("12", "12.0", True), ("1.07M", "1,069,056", True)],
)  # fmt: skip
def test_a_number_may_be_another_with_fewer_figures(here, there, same):
    assert Number(here, "", True).is_rounded(Number(there, "", True)) == same


def test_figures_have_values():
    texts = "1,600 −3.1e-4 1.06M 16.38G +2"
    assert [float(parse_value(text)) for text in texts.split()] == [
        1600,
        -3.1e-4,
        1.06e6,
        16.38e9,
        2,
    ]


def test_a_chapter_is_prose_and_code():
    script = (
        "# %% [markdown]\n# # One\n# 63.1 million, 9.5\n# %%\nassert x == 63_082_496 > 9.5e12\n"
    )
    (section,) = read_sections(chapter_text(script))[1:]
    assert [str(number) for number in section.numbers] == ["63.1", "9.5"]
    assert {(6, 3, 1), (9, 5)} <= chapter_figures(script)
    assert (6, 3) not in chapter_figures(script)
