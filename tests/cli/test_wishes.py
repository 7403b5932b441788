import io

import pytest
from rich.console import Console

from regard.cli.wishes import Asked, mark_difference, read_link, read_place
from regard.inspection.changes import Flattened, ForcedWords, Silenced


def test_options_become_wishes_in_their_order():
    asked = Asked(without=["3.5", "encoder.0"], flatten=["1"], force=["Africa=4", "2=mer"])
    assert asked.wishes("cross") == [
        Silenced("cross", 3, 5),
        Silenced("encoder", 0),
        Flattened("cross", 1),
        ForcedWords("Africa", 4),
        ForcedWords(2, "mer"),
    ]
    assert str(asked) == "without 3.5, encoder.0; flat 1; forced Africa=4, 2=mer"
    assert Asked().wishes("cross") == []


@pytest.mark.parametrize(
    ("asked", "place"),
    [
        ("3", ("decoder", 3, None)),
        ("3.5", ("decoder", 3, 5)),
        ("cross.3", ("cross", 3, None)),
        ("encoder.3.5", ("encoder", 3, 5)),
    ],
)
def test_a_place_may_name_its_part(asked, place):
    assert read_place(asked, "decoder", "--without") == place


def test_a_source_word_may_hold_a_sign_of_equality():
    assert read_link("0=a=b") == ForcedWords(0, "a=b")


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [
        ("a b c", "a b c", "a b c"),
        ("a b c", "a x c", "a [-b-] {+x+} c"),
        ("a b", "a b [c]", "a b {+[c]+}"),
        ("a b", "", "[-a b-]"),
        ("", "", ""),
    ],
)
def test_differing_words_are_marked(before, after, shown):
    assert mark_difference(before, after, coloured=False).plain == shown


def test_where_there_is_colour_it_marks_them():
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, color_system="truecolor")
    marked = mark_difference("a b c", "a x c", coloured=True)
    assert marked.plain == "a b x c"
    console.print(marked)
    gone, new = "\x1b[9;31mb", "\x1b[1;32mx"  # struck through and red; bold and green
    assert gone in file.getvalue()
    assert new in file.getvalue()
