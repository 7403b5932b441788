"""Alignment error rate against gold word alignments (Och and Ney 2003)."""

from collections.abc import Iterable, Set
from typing import NamedTuple

from regard.errors import CorpusError
from regard.evaluation.metrics import check_lines
from regard.types import GoldAlignment, Link


class AlignmentScore(NamedTuple):
    """Scores over all sentences together; each from 0 to 1."""

    error_rate: float  # AER = 1 - (|A ∩ S| + |A ∩ P|) / (|A| + |S|) of links A, sure S, possible P
    precision: float  # |A ∩ P| / |A|; 0 if there are no links
    recall: float  # |A ∩ S| / |S|


def error_rate(*, num_links: float, num_sure: float, hit_sure: float, hit_possible: float) -> float:
    """AER of predicted links, of which some hit sure and possible gold links."""
    return 1 - (hit_sure + hit_possible) / (num_links + num_sure)


def score_alignments(
    predicted: Iterable[Set[Link]], gold: Iterable[GoldAlignment]
) -> AlignmentScore:
    """The alignment error rate of `predicted` links, with its precision and recall."""
    predicted, gold = list(predicted), list(gold)
    check_lines(predicted_alignments=predicted, gold_alignments=gold)
    pairs = list(zip(predicted, gold, strict=True))
    num_links, num_sure = sum(map(len, predicted)), sum(len(truth.sure) for truth in gold)
    hit_sure = sum(len(links & truth.sure) for links, truth in pairs)
    hit_possible = sum(len(links & truth.possible) for links, truth in pairs)
    if not num_sure:
        raise CorpusError(
            f"alignment error needs sure links, found none in {len(gold)} gold alignments"
        )
    error = error_rate(
        num_links=num_links, num_sure=num_sure, hit_sure=hit_sure, hit_possible=hit_possible
    )
    precision = hit_possible / num_links if num_links else 0.0
    return AlignmentScore(error, precision, hit_sure / num_sure)
