import pytest
import torch
from pydantic import ValidationError

from regard.alignment.extraction import (
    BASELINE_ALIGNMENT,
    DEFAULT_ALIGNMENT,
    AlignmentSettings,
    align,
    align_averaged,
    align_text,
    argmax_links,
    extract_links,
    normalize_rows_columns,
    word_map,
)
from regard.inspection.recording.attention_map import AttentionMaps, Axis

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
    return AttentionMaps("cross", torch.stack(maps)[:, None], ROWS, COLUMNS)


def single(rows):
    """Maps that look at one column each: -1 for the last."""
    return torch.eye(len(COLUMNS.pieces))[rows]


def test_pieces_become_words():
    words = sentence(MAP).merge_pieces()
    want = torch.tensor([[0.3, 0.1, 0.0], [0.25, 0.35, 0.2], [0.25, 0.0, 0.3]])
    torch.testing.assert_close(words.weights, want[None, None])
    assert words.rows == Axis(ROWS.words, ROWS.words, (0, 1, 2))
    assert words.columns.pieces == COLUMNS.words


def test_links_of_words_without_spaces_are_links_of_their_letters():
    cats = Axis(("▁the", "▁cat", "</s>"), ("the", "cat"), (0, 1, None))
    neko = Axis(("▁", "この", "ねこ", "</s>"), ("この", "ねこ"), (None, 0, 1, None), (2, 2))
    weights = torch.tensor([[0.1, 0, 0.9], [0.9, 0.1, 0], [0, 0.9, 0.1], [0, 0, 1]])
    attention = AttentionMaps("cross", weights[None, None], neko, cats)
    assert align(attention, BASELINE_ALIGNMENT) == {(0, 0), (1, 1)}
    assert align_text(attention, BASELINE_ALIGNMENT) == {(0, 0), (0, 1), (1, 2), (1, 3)}
    # The other model reads the same text in other pieces.
    letters = Axis(("▁こ", "のね", "こ", "</s>"), ("こ", "のね", "こ"), (0, 1, 2, None), (1, 2, 1))
    weights = torch.tensor([[0.8, 0.1, 0, 0.1], [0, 0.3, 0.6, 0.1], [0, 0, 0, 1]])
    back = AttentionMaps("cross", weights[None, None], cats, letters)
    together = align_averaged(attention, back, (BASELINE_ALIGNMENT, BASELINE_ALIGNMENT))
    assert together == {(0, 0), (0, 1), (1, 2), (1, 3)}


def test_sinks_are_ignored_and_subwords_merged():
    assert align(sentence(MAP), AlignmentSettings()) == {(0, 0), (1, 1), (2, 2)}


def test_shift_reads_a_word_where_it_is_given():
    late = single([-1, 0, 1, 4, 4])
    words = sentence(late).merge_pieces(shift=True)
    torch.testing.assert_close(words.weights[0, 0], torch.eye(3))
    assert align(sentence(late), AlignmentSettings(shift=True)) == {(0, 0), (1, 1), (2, 2)}
    assert align(sentence(late), AlignmentSettings()) != {(0, 0), (1, 1), (2, 2)}


def test_layer_and_head_are_chosen():
    attention = AttentionMaps(
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


def test_words_without_attention_have_no_link():
    assert argmax_links(torch.tensor([[0.0, 0.0], [0.1, 0.2]])) == {(1, 1)}
    assert argmax_links(torch.zeros(3, 0)) == argmax_links(torch.zeros(0, 3)) == frozenset()


def test_settings_have_their_ranges():
    with pytest.raises(ValidationError, match="threshold"):
        AlignmentSettings(threshold=1)
    with pytest.raises(ValidationError, match="layer"):
        AlignmentSettings(layer=-1)


def test_shares_are_those_of_the_row_times_those_of_the_column():
    weights = torch.tensor([[0.2, 0.6], [0.0, 0.4], [0.0, 0.0]])
    want = torch.tensor([[0.25 * 1, 0.75 * 0.6], [0, 1 * 0.4], [0, 0]])
    torch.testing.assert_close(normalize_rows_columns(weights), want)
    torch.testing.assert_close(normalize_rows_columns(weights[None]), want[None])


def test_a_column_with_weight_from_all_rows_loses_by_shares():
    # each row but the last gives the first column most; the last row needs it
    weights = torch.tensor([[0.5, 0.4, 0.0], [0.5, 0.0, 0.4], [0.9, 0.0, 0.0]])
    assert argmax_links(weights) == {(0, 0), (0, 1), (0, 2)}
    assert argmax_links(normalize_rows_columns(weights)) == {(1, 0), (2, 1), (0, 2)}


def test_shares_are_taken_in_each_head_and_twice_in_their_average():
    heads = torch.rand(1, 2, 5, 6, generator=torch.manual_seed(1))
    attention = AttentionMaps("cross", heads, ROWS, COLUMNS)
    words = attention.merge_pieces()
    average = normalize_rows_columns(words.weights).mean((0, 1))
    want = normalize_rows_columns(normalize_rows_columns(average))
    torch.testing.assert_close(
        word_map(attention, AlignmentSettings(shares=True, sinks=True)), want
    )


def test_two_models_are_averaged_and_read_as_one():
    rows, columns = (Axis(tuple(names), tuple(names), (0, 1, 2)) for names in ("ABC", "abc"))
    # one is undecided about A and B, the other about c
    forward = torch.tensor([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]])
    backward = torch.tensor([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.5, 0.5]])
    forward_map = AttentionMaps("cross", forward[None, None], rows, columns)
    backward_map = AttentionMaps("cross", backward[None, None], columns, rows)
    both = AlignmentSettings(), AlignmentSettings(links="union")
    assert align_averaged(forward_map, backward_map, both) == {(1, 0), (0, 1), (2, 2)}


def test_links_are_read_by_rows_by_columns_or_both():
    weights = torch.tensor([[0.6, 0.3, 0.1], [0.5, 0.4, 0.1], [0.0, 0.1, 0.9]])
    rows, columns = {(0, 0), (0, 1), (2, 2)}, {(0, 0), (1, 1), (2, 2)}
    assert extract_links(weights, "rows") == rows
    assert extract_links(weights, "columns") == columns
    assert extract_links(weights, "intersection") == {(0, 0), (2, 2)}
    assert extract_links(weights, "union") == rows | columns
    assert extract_links(weights, "columns", threshold=0.5) == {(0, 0), (2, 2)}


def test_sinks_count_only_if_asked_for():
    pieces = tuple(f"▁{number}" for number in range(6))
    axis = Axis(pieces, pieces, tuple(range(6)))
    parked = 0.4 * torch.eye(6) + 0.6 * torch.eye(6)[[5] * 6]
    attention = AttentionMaps("cross", parked[None, None], axis, axis)
    assert align(attention, AlignmentSettings()) == {(n, n) for n in range(6)}
    assert align(attention, BASELINE_ALIGNMENT) == {(5, n) for n in range(6)}


def test_settings_say_what_they_are():
    assert str(BASELINE_ALIGNMENT) == "the average of all layers and heads, with its sinks"
    assert str(DEFAULT_ALIGNMENT) == "the average of all layers and heads, by shares, grow-diag"
    one = AlignmentSettings(layer=2, head=1, shift=True, links="union")
    assert str(one) == "layer 2, head 1, shifted, union"
    assert str(AlignmentSettings(layer=2)) == "layer 2, the average of all heads"
