import pytest
import torch

from regard.inspection.attention_sinks import (
    MIN_ROWS,
    SinkCounter,
    SinkSummary,
    find_sinks,
    without_sinks,
)
from regard.inspection.recording.attention_map import AttentionMaps, Axis

PIECES = ("▁Wir", "▁glauben", "▁das", "▁nicht", "▁.", "</s>")


def axis(pieces):
    return Axis(pieces, pieces, tuple(range(len(pieces))))


def attention(*heads, part="cross", pieces=PIECES):
    """One layer of `heads`, each (T, S)."""
    rows = axis(tuple(f"▁{number}" for number in range(heads[0].shape[0])))
    return AttentionMaps(part, torch.stack(heads)[None], rows, axis(pieces))


def sink_weights(column, floor, rows=6):
    """A diagonal map in which each row also gives the weight `floor` to `column`."""
    return (1 - floor) * torch.eye(rows, 6) + floor * torch.eye(6)[[column] * rows]


def test_a_diagonal_has_no_sinks():
    assert find_sinks(attention(torch.eye(6))) == ()


def test_sinks_are_named_with_their_head_and_share_and_the_largest_comes_first():
    found = find_sinks(attention(sink_weights(5, 0.3), torch.eye(6), sink_weights(4, 0.6)))
    assert [sink[:5] for sink in found] == [("cross", 0, 2, 4, "▁."), ("cross", 0, 0, 5, "</s>")]
    # five rows give it the floor, the sixth all of its weight
    assert [sink.share for sink in found] == pytest.approx([(5 * 0.6 + 1) / 6, (5 * 0.3 + 1) / 6])


def test_a_word_that_two_rows_attend_to_is_no_sink():
    assert find_sinks(attention(torch.eye(6)[[0, 1, 2, 2, 3, 4]])) == ()


def test_a_sink_has_weight_from_half_of_the_rows():
    some = torch.eye(6)[[4, 4, 4, 0, 1, 2]]
    more = torch.eye(6)[[4, 4, 4, 4, 1, 2]]
    assert find_sinks(attention(some)) == ()
    assert [sink.column for sink in find_sinks(attention(more))] == [4]


def test_maps_with_few_rows_have_no_sinks():
    assert find_sinks(attention(sink_weights(5, 0.9, rows=MIN_ROWS - 1))) == ()
    assert find_sinks(attention(sink_weights(5, 0.9, rows=MIN_ROWS))) != ()
    assert find_sinks(attention(torch.zeros(0, 6))) == ()


def test_decoder_columns_count_only_rows_that_see_them():
    # rows see columns up to their own; all later rows give the third column a half
    weights = torch.eye(8)
    weights[3:] *= 0.5
    weights[3:, 2] = 0.5
    found = find_sinks(attention(weights, part="decoder", pieces=tuple("abcdefgh")))
    assert [sink.column for sink in found] == [2]
    assert found[0].share == pytest.approx((1 + 5 * 0.5) / 6)


def test_without_sinks_only_sink_weights_are_reduced():
    kept = without_sinks(attention(sink_weights(4, 0.6), torch.eye(6)))
    want = 0.4 * torch.eye(6)
    torch.testing.assert_close(kept.weights[0], torch.stack([want, torch.eye(6)]))
    assert kept.columns.pieces == PIECES


def count_sinks(attentions):
    counter = SinkCounter()
    for one in attentions:
        counter.add(one)
    return counter.summaries()


def test_sinks_are_summed_up_over_sentences():
    first = attention(torch.eye(6), sink_weights(4, 0.6))
    second = attention(torch.eye(6), sink_weights(0, 0.3))
    third = attention(torch.eye(6), torch.eye(6))
    by_stop, by_word = count_sinks([first, second, third])
    assert by_stop[:4] == ("cross", 0, 1, ".")
    assert by_stop.share == pytest.approx((5 * 0.6 + 1) / 18)
    assert by_stop.sentences == 1
    assert by_word == SinkSummary("cross", 0, 1, "words", pytest.approx((5 * 0.3 + 1) / 18), 1)
    assert count_sinks([]) == ()


def test_specials_signs_and_spaces_are_told_apart_from_words():
    pieces = ("<s>", "▁", "▁,", "▁l'", "4", "</s>")
    found = count_sinks(attention(sink_weights(n, 0.9), pieces=pieces) for n in range(6))
    assert {one.piece: one.sentences for one in found} == {
        "<s>": 1,
        "▁": 1,
        ",": 1,
        "words": 2,
        "</s>": 1,
    }
