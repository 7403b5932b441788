import pytest
import torch
from pydantic import ValidationError

from regard.inspection.alignment import (
    AlignmentSettings,
    align,
    by_word,
    link,
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


def test_settings_have_their_ranges():
    with pytest.raises(ValidationError, match="threshold"):
        AlignmentSettings(threshold=1)
    with pytest.raises(ValidationError, match="layer"):
        AlignmentSettings(layer=-1)
