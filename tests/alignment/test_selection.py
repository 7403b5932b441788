import pytest
import torch

from regard.alignment.extraction import (
    BASELINE_ALIGNMENT,
    DEFAULT_ALIGNMENT,
    AlignmentSettings,
    align,
)
from regard.alignment.selection import (
    select_by_agreement,
    select_by_gold,
)
from regard.errors import CorpusError
from regard.evaluation.alignment_error import score_alignments
from regard.inspection.recording.attention_map import AttentionMaps, Axis
from regard.types import GoldAlignment

# a b c d </s> -> A B C D E </s>
COLUMNS = Axis(("▁a", "▁b", "▁c", "▁d", "</s>"), ("a", "b", "c", "d"), (0, 1, 2, 3, None))
ROWS = Axis(
    ("▁A", "▁B", "▁C", "▁D", "▁E", "</s>"), ("A", "B", "C", "D", "E"), (0, 1, 2, 3, 4, None)
)
LINKS = frozenset({(1, 0), (0, 1), (2, 2), (3, 3)})
GOLD = GoldAlignment(LINKS, LINKS | {(3, 4)})


def looks(rows, columns=COLUMNS):
    """Each row looks at one column: -1 for the last."""
    return torch.eye(len(columns.pieces))[rows]


NOISE = looks([4, 3, 3, 0, 0, 0])
RIGHT = looks([1, 0, 2, 3, 3, 4])
LATE = looks([4, 1, 0, 2, 3, 3])  # each word where it is the input, not where it is predicted


def model(*heads, rows=ROWS, columns=COLUMNS):
    """Two layers, of which `heads` are the second and the first is noise."""
    layers = torch.stack([torch.stack([NOISE] * len(heads)), torch.stack(heads)])  # (2, H, T, S)
    return AttentionMaps("cross", layers, rows, columns)


def turned(*heads):
    """The same for a model of the other direction."""
    noise = torch.eye(6)[[5, 0, 0, 1, 1]]
    layers = torch.stack([torch.stack([noise] * len(heads)), torch.stack(heads)])  # (2, H, S, T)
    return AttentionMaps("cross", layers, COLUMNS, ROWS)


@pytest.mark.parametrize(("good", "shift"), [(RIGHT, False), (LATE, True)])
def test_gold_finds_the_head_and_the_shift(good, shift):
    choice = select_by_gold([model(*[NOISE] * 5, good)] * 2, [GOLD] * 2)
    assert choice.settings == AlignmentSettings(layer=1, head=5, shift=shift)
    assert choice.error == 0


def test_no_head_and_no_plain_average_does_better():
    drawn = torch.rand(2, 3, 6, 5, generator=torch.manual_seed(3)).softmax(-1)
    sentences = [
        AttentionMaps("cross", drawn[:, :, :, list(order)], ROWS, COLUMNS) for order in ORDERS
    ]
    choice = select_by_gold(sentences, [GOLD] * len(ORDERS))

    def error(settings):
        return score_alignments([align(one, settings) for one in sentences], [GOLD] * 2).error_rate

    assert choice.error == pytest.approx(error(choice.settings))
    assert choice.error <= error(BASELINE_ALIGNMENT)
    for layer in (None, 0, 1):
        for head in (None, 0, 1, 2):
            if layer is not None or head is None:
                settings = AlignmentSettings(layer=layer, head=head, shares=True)
                assert choice.error <= error(settings) + 1e-9


ORDERS = (0, 1, 2, 3, 4), (3, 1, 0, 2, 4)


def test_the_link_extraction_is_selected():
    # c is no row's best column, but C gives it more weight than any other row
    blurred = 0.5 * RIGHT
    blurred[2] = torch.tensor([0.0, 0.0, 0.2, 0.3, 0.0])
    gold = GoldAlignment(LINKS, LINKS)
    sentence = AttentionMaps("cross", blurred[None, None], ROWS, COLUMNS)
    choice = select_by_gold([sentence], [gold])
    assert choice.error < score_alignments([align(sentence, BASELINE_ALIGNMENT)], [gold]).error_rate
    assert choice.settings != BASELINE_ALIGNMENT


def test_of_equals_the_plain_average_wins():
    sentence = AttentionMaps("cross", RIGHT[None, None], ROWS, COLUMNS)
    assert select_by_gold([sentence], [GOLD]).settings == BASELINE_ALIGNMENT


def test_agreement_finds_the_heads_that_confirm_each_other():
    forward = model(NOISE, RIGHT, looks([0, 1, 2, 3, 4, 4]))
    back = torch.eye(6)[[1, 0, 2, 3, 5]]  # a to B, b to A, c to C, d to D
    backward = turned(back, torch.eye(6)[[2, 3, 4, 0, 5]])
    found = select_by_agreement([forward] * 3, [backward] * 3)
    assert found.forward == DEFAULT_ALIGNMENT.model_copy(update={"layer": 1, "head": 1})
    assert found.backward == DEFAULT_ALIGNMENT.model_copy(update={"layer": 1, "head": 0})
    # five links and four, of which four are the same
    assert found.value == pytest.approx(2 * 4 / (5 + 4))


def test_blank_sentences_change_nothing():
    nothing = AttentionMaps("cross", torch.ones(2, 2, 1, 1), *[Axis(("</s>",), (), (None,))] * 2)
    none = GoldAlignment(frozenset(), frozenset())
    with_blank = select_by_gold([model(NOISE, RIGHT), nothing], [GOLD, none])
    assert with_blank == select_by_gold([model(NOISE, RIGHT)], [GOLD])
    back = turned(torch.eye(6)[[1, 0, 2, 3, 5]], torch.eye(6)[[2, 3, 4, 0, 5]])
    both = [model(NOISE, RIGHT), nothing], [back, nothing]
    assert select_by_agreement(*both) == select_by_agreement(both[0][:1], both[1][:1])


def test_selection_needs_sentences_and_as_many_of_the_other_side():
    with pytest.raises(CorpusError, match="there is nothing to measure"):
        select_by_gold([], [])
    with pytest.raises(CorpusError, match="there is nothing to measure"):
        select_by_agreement([], [])
    with pytest.raises(CorpusError, match="1 attentions, 2 gold alignments"):
        select_by_gold([model(RIGHT)], [GOLD] * 2)
    with pytest.raises(CorpusError, match="1 forward attentions, 2 backward attentions"):
        select_by_agreement([model(RIGHT)], [turned(torch.eye(6)[:5])] * 2)
