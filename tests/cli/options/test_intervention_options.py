import io

import pytest
from rich.console import Console

from regard.cli.options.intervention_options import (
    InterventionOptions,
    parse_forced_link,
    parse_head_position,
    render_word_diff,
)
from regard.inspection.interventions import Flattened, ForcedWords, Silenced


def test_options_become_intervention_requests_in_order():
    asked = InterventionOptions(
        without=["3.5", "encoder.0"], flatten=["1"], force=["Africa=4", "2=mer"]
    )
    assert asked.requests("cross") == [
        Silenced("cross", 3, 5),
        Silenced("encoder", 0),
        Flattened("cross", 1),
        ForcedWords("Africa", 4),
        ForcedWords(2, "mer"),
    ]
    assert str(asked) == "without 3.5, encoder.0; flat 1; forced Africa=4, 2=mer"
    assert InterventionOptions().requests("cross") == []


@pytest.mark.parametrize(
    ("asked", "place"),
    [
        ("3", ("decoder", 3, None)),
        ("3.5", ("decoder", 3, 5)),
        ("cross.3", ("cross", 3, None)),
        ("encoder.3.5", ("encoder", 3, 5)),
    ],
)
def test_a_head_position_may_name_its_part(asked, place):
    assert parse_head_position(asked, "decoder", "--without") == place


def test_a_source_word_may_hold_a_sign_of_equality():
    assert parse_forced_link("0=a=b") == ForcedWords(0, "a=b")


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
    assert render_word_diff(before, after, coloured=False).plain == shown


def test_where_there_is_colour_it_marks_them():
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, color_system="truecolor")
    marked = render_word_diff("a b c", "a x c", coloured=True)
    assert marked.plain == "a b x c"
    console.print(marked)
    gone, new = "\x1b[9;31mb", "\x1b[1;32mx"  # struck through and red; bold and green
    assert gone in file.getvalue()
    assert new in file.getvalue()
