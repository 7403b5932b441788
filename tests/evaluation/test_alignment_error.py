import os
from pathlib import Path

import pytest

from regard.errors import CorpusError
from regard.evaluation.alignment_error import score_alignments
from regard.evaluation.pharaoh import read_pharaoh
from regard.types import GoldAlignment

DATA = Path(os.environ.get("REGARD_DATA", "/nowhere")) / "alignments"


def gold(sure, possible=()):
    return GoldAlignment(frozenset(sure), frozenset(sure) | frozenset(possible))


def test_by_hand():
    truth = [gold({(0, 0), (1, 2)}, {(1, 1)}), gold({(0, 0)})]
    predicted = [{(0, 0), (1, 1), (3, 3)}, {(0, 0)}]
    found = score_alignments(predicted, truth)
    # A = 4, S = 3, A and S = 2, A and P = 3
    assert found.error_rate == pytest.approx(1 - (2 + 3) / (4 + 3))
    assert found.precision == pytest.approx(3 / 4)
    assert found.recall == pytest.approx(2 / 3)


def test_the_extremes():
    truth = [gold({(0, 0)}, {(0, 1)})]
    assert score_alignments([{(0, 0), (0, 1)}], truth) == (0, 1, 1)
    assert score_alignments([{(5, 5)}], truth) == (1, 0, 0)
    assert score_alignments([set()], truth) == (1, 0, 0)


def test_sentences_weigh_by_their_links():
    truth = [gold({(i, i) for i in range(9)}), gold({(0, 0)})]
    found = score_alignments([{(i, i) for i in range(9)}, {(1, 1)}], truth)
    assert found.recall == pytest.approx(0.9)


def test_errors_say_what_is_wrong():
    with pytest.raises(CorpusError, match="1 predicted alignments, 2 gold alignments"):
        score_alignments([set()], [gold({(0, 0)})] * 2)
    with pytest.raises(CorpusError, match="needs sure links, found none in 1 gold alignments"):
        score_alignments([{(0, 0)}], [gold((), {(0, 0)})])


@pytest.mark.skipif(not DATA.is_dir(), reason="needs alignments/ in $REGARD_DATA")
@pytest.mark.parametrize(
    ("name", "percent"),
    [
        ("deen.fastalign", 28.5),
        ("deen.fastalign.grow-diagonal", 27.0),
        ("deen.giza", 21.0),
        ("deen.giza.grow-diagonal", 21.4),
    ],
)
def test_known_aligners_on_real_gold(name, percent):
    with (DATA / "deen.alignment.talp").open() as lines:
        truth = list(read_pharaoh(lines, counted_from=1, name="gold"))
    with (DATA / f"{name}.talp").open() as lines:
        predicted = [links.possible for links in read_pharaoh(lines, name=name)]
    assert len(truth) == 508
    found = score_alignments(predicted, truth)
    assert 100 * found.error_rate == pytest.approx(percent, abs=0.05)
