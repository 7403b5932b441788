import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from regard.errors import CorpusError
from regard.inspection.alignment import (
    AlignmentSettings,
    align,
    by_word,
    choose,
    grow_diag,
    intersect,
    link,
    union,
)
from regard.inspection.record import Attention, Axis

# Jane visit|e l' Afrique </s>  ->  Jane visits Afri|ca </s>
COLUMNS = Axis(
    ("▁Jane", "▁visit", "e", "▁", "l'Afrique", "</s>"),
    ("Jane", "visite", "l'Afrique"),
    (0, 1, 1, None, 2, None),
)
ROWS = Axis(
    ("▁Jane", "▁visits", "▁Afri", "ca", "</s>"), ("Jane", "visits", "Africa"), (0, 1, 2, 2, None)
)
MAP = torch.tensor(
    [
        [0.30, 0.00, 0.10, 0.00, 0.00, 0.60],
        [0.25, 0.20, 0.15, 0.10, 0.20, 0.10],
        [0.00, 0.00, 0.00, 0.00, 0.10, 0.90],
        [0.50, 0.00, 0.00, 0.00, 0.50, 0.00],
        [0.00, 0.00, 0.00, 0.00, 0.00, 1.00],
    ]
)
LINKS = st.frozensets(st.tuples(st.integers(0, 5), st.integers(0, 4)))


def sentence(*maps):
    return Attention("cross", torch.stack(maps)[:, None], ROWS, COLUMNS)


def single(rows):
    """Maps that look at one column each: -1 for the last."""
    return torch.eye(len(COLUMNS.pieces))[rows]


def test_pieces_become_words():
    words = by_word(sentence(MAP))
    want = torch.tensor([[0.3, 0.1, 0.0], [0.25, 0.35, 0.2], [0.25, 0.0, 0.3]])
    torch.testing.assert_close(words.layers, want[None, None])
    assert words.rows == Axis(ROWS.words, ROWS.words, (0, 1, 2))
    assert words.columns.pieces == COLUMNS.words


def test_the_sink_is_ignored_and_subwords_are_heard_together():
    assert align(sentence(MAP), AlignmentSettings()) == {(0, 0), (1, 1), (2, 2)}


def test_shift_reads_a_word_where_it_is_given():
    late = single([-1, 0, 1, 4, 4])
    words = by_word(sentence(late), shift=True)
    torch.testing.assert_close(words.layers[0, 0], torch.eye(3))
    assert align(sentence(late), AlignmentSettings(shift=True)) == {(0, 0), (1, 1), (2, 2)}
    assert align(sentence(late), AlignmentSettings()) != {(0, 0), (1, 1), (2, 2)}


def test_layer_and_head_are_chosen():
    attention = Attention(
        "cross", torch.stack([single([0] * 5), single([4] * 5)])[None], ROWS, COLUMNS
    )
    assert align(attention, AlignmentSettings(head=0)) == {(0, 0), (0, 1), (0, 2)}
    assert align(attention, AlignmentSettings(layer=0, head=1)) == {(2, 0), (2, 1), (2, 2)}


def test_threshold_is_a_share_of_what_words_get():
    # Jane 0.3 of 0.4; visits 0.35 of 0.8; Africa 0.3 of 0.55
    kept = {
        0.40: {(0, 0), (1, 1), (2, 2)},
        0.45: {(0, 0), (2, 2)},
        0.60: {(0, 0)},
        0.80: set(),
    }
    for threshold, want in kept.items():
        assert align(sentence(MAP), AlignmentSettings(threshold=threshold)) == want


def test_words_that_look_nowhere_have_no_link():
    assert link(torch.tensor([[0.0, 0.0], [0.1, 0.2]])) == {(1, 1)}
    assert link(torch.zeros(3, 0)) == link(torch.zeros(0, 3)) == frozenset()


def test_choose_finds_the_head_and_shift_that_fit():
    truth = frozenset({(0, 0), (1, 1), (2, 2)})
    noise, right = single([4, 4, 0, 0, 0]), 0.9 * single([-1, 0, 1, 4, 4])
    layers = torch.stack([torch.stack([noise, noise]), torch.stack([noise, right])])  # (2, 2, T, S)
    sentences = [Attention("cross", layers, ROWS, COLUMNS)] * 2
    asked = []

    def error(predicted):
        asked.append(predicted)
        return sum(len(links ^ truth) for links in predicted)

    choice = choose(sentences, error)
    assert choice.settings == AlignmentSettings(layer=1, head=1, shift=True)
    assert choice.error == 0
    assert len(asked) == (1 + 2 + 4) * 2
    assert all(len(predicted) == 2 for predicted in asked)


def test_choose_prefers_the_plain_average_among_equals():
    calls = []
    choice = choose([sentence(MAP)], lambda links: calls.append(links) or 0.5, threshold=0.1)
    assert choice == (AlignmentSettings(threshold=0.1), 0.5)
    assert len(calls) == 2  # one layer of one head: shifted or not


def test_choose_needs_sentences():
    with pytest.raises(CorpusError, match="at least one sentence, found none"):
        choose([], lambda links: 0.0)


def test_settings_have_their_ranges():
    with pytest.raises(ValidationError, match="threshold"):
        AlignmentSettings(threshold=1)
    with pytest.raises(ValidationError, match="layer"):
        AlignmentSettings(layer=-1)


def test_symmetrisation_by_hand():
    forward, backward = {(0, 0), (1, 1), (2, 3), (4, 4)}, {(0, 0), (1, 2), (2, 3)}
    assert intersect(forward, backward) == {(0, 0), (2, 3)}
    assert union(forward, backward) == {(0, 0), (1, 1), (1, 2), (2, 3), (4, 4)}
    # 1-1 touches 0-0 and 1-2 touches 2-3 (and both find their target bare); 4-4 touches nothing
    assert grow_diag(forward, backward) == {(0, 0), (1, 1), (1, 2), (2, 3)}


def test_growing_stops_where_both_words_are_taken():
    forward, backward = {(0, 0), (1, 1), (0, 1)}, {(0, 0), (1, 1)}
    assert grow_diag(forward, backward) == {(0, 0), (1, 1)}


def test_growth_can_start_from_what_has_grown():
    forward, backward = {(0, 0), (1, 1), (2, 2), (3, 3)}, {(0, 0)}
    assert grow_diag(forward, backward) == forward


@settings(max_examples=60, deadline=None)
@given(LINKS, LINKS)
def test_growth_lies_between_intersection_and_union(forward, backward):
    grown = grow_diag(forward, backward)
    assert intersect(forward, backward) <= grown <= union(forward, backward)
    assert grown == grow_diag(backward, forward)
