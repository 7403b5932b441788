"""How far predicted word alignments are from gold ones (Och and Ney 2003)."""

from collections.abc import Iterable, Set
from typing import NamedTuple

from regard.errors import CorpusError
from regard.evaluation.metrics import check_lines
from regard.types import GoldAlignment, Link


class AlignmentScore(NamedTuple):
    """Of all sentences together; each from 0 to 1."""

    error_rate: float
    """AER = 1 - (|A ∩ S| + |A ∩ P|) / (|A| + |S|) for links A, sure S and possible P."""
    precision: float
    """|A ∩ P| / |A|; 0 where nothing is linked."""
    recall: float
    """|A ∩ S| / |S|"""


def error_rate(*, num_links: float, num_sure: float, hit_sure: float, hit_possible: float) -> float:
    """AER of so many links, of which so many were among the sure and the possible ones."""
    return 1 - (hit_sure + hit_possible) / (num_links + num_sure)


def score_alignments(
    predicted: Iterable[Set[Link]], gold: Iterable[GoldAlignment]
) -> AlignmentScore:
    """The alignment error rate of `predicted` links, with its precision and recall."""
    predicted, gold = list(predicted), list(gold)
    check_lines(predicted_alignments=predicted, gold_alignments=gold)
    num_links = num_sure = hit_sure = hit_possible = 0
    for links, truth in zip(predicted, gold, strict=True):
        num_links += len(links)
        num_sure += len(truth.sure)
        hit_sure += len(links & truth.sure)
        hit_possible += len(links & truth.possible)
    if not num_sure:
        raise CorpusError(
            f"alignment error needs sure links, found none in {len(gold)} gold alignments"
        )
    return AlignmentScore(
        error_rate=error_rate(
            num_links=num_links, num_sure=num_sure, hit_sure=hit_sure, hit_possible=hit_possible
        ),
        precision=hit_possible / num_links if num_links else 0.0,
        recall=hit_sure / num_sure,
    )
