import pytest
from pydantic import ValidationError
from sacrebleu.metrics import CHRF

from regard.errors import CorpusError
from regard.evaluation.by_length import LengthSettings, score_by_length
from regard.evaluation.scores import ScoreSettings

SETTINGS = ScoreSettings(metrics=("chrf", "exact"), resamples=0)


def sentences(*lengths):
    return [" ".join("abcdefghij"[:length]) for length in lengths]


def groups_of(lengths_in_group):
    return [(group.shortest, group.longest, group.count) for group in lengths_in_group]


def test_letters_are_counted_where_there_are_no_spaces():
    sources = ["これはペンです。", "Ja"]
    lengths_in_group = score_by_length(
        sources, sources, sources, LengthSettings(groups=2), SETTINGS
    )
    assert [group.longest for group in lengths_in_group] == [1, 8]


def test_fixed_edges_are_the_longest_of_their_group_and_empty_groups_are_left_out():
    sources = sentences(2, 3, 4, 9, 10)
    lengths = LengthSettings(edges=(3, 6, 8))
    lengths_in_group = score_by_length(sources, sources, sources, lengths, SETTINGS)
    assert groups_of(lengths_in_group) == [(2, 3, 2), (4, 4, 1), (9, 10, 2)]


def test_each_group_is_scored_by_its_own_lines():
    sources = sentences(2, 8, 3, 9)
    hypotheses = ["a b", "a b c d", "a b c", "wrong"]
    short, long = score_by_length(
        sources, hypotheses, sources, LengthSettings(edges=(5,)), SETTINGS
    )
    assert [score.value for score in short.scores] == [100, 100]
    want = CHRF().corpus_score(["a b c d", "wrong"], [sentences(8, 9)]).score
    assert long.scores[0].value == pytest.approx(want)
    assert long.scores[1].value == 0


def test_equal_shares():
    sources = sentences(5, 1, 4, 2, 3, 6)
    lengths_in_group = score_by_length(
        sources, sources, sources, LengthSettings(groups=3), SETTINGS
    )
    assert groups_of(lengths_in_group) == [(1, 2, 2), (3, 4, 2), (5, 6, 2)]


@pytest.mark.parametrize(
    ("lengths", "want"),
    [
        ((3, 3, 3, 3), [(3, 3, 4)]),
        ((1, 3, 3, 3), [(1, 3, 4)]),
        ((3, 3, 3, 9), [(3, 3, 3), (9, 9, 1)]),
        ((7,), [(7, 7, 1)]),
    ],
)
def test_sentences_of_one_length_stay_together(lengths, want):
    sources = sentences(*lengths)
    lengths_in_group = score_by_length(
        sources, sources, sources, LengthSettings(groups=2), SETTINGS
    )
    assert groups_of(lengths_in_group) == want


def test_fewer_sentences_than_groups():
    sources = sentences(1, 2, 3)
    lengths_in_group = score_by_length(
        sources, sources, sources, LengthSettings(groups=5), SETTINGS
    )
    assert groups_of(lengths_in_group) == [(1, 1, 1), (2, 2, 1), (3, 3, 1)]


def test_characters_for_text_without_spaces():
    sources = ["猫", "猫がいます"]
    lengths = LengthSettings(unit="characters", edges=(2,))
    lengths_in_group = score_by_length(sources, sources, sources, lengths, SETTINGS)
    assert groups_of(lengths_in_group) == [(1, 1, 1), (5, 5, 1)]


def test_errors_say_what_is_wrong():
    with pytest.raises(CorpusError, match="1 sources, 2 hypotheses, 2 references"):
        score_by_length(["a"], ["a", "b"], ["a", "b"], LengthSettings(), SETTINGS)
    with pytest.raises(ValidationError, match=r"edges must rise, got \(5, 3\)"):
        LengthSettings(edges=(5, 3))
