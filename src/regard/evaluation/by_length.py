"""Scores by the length of the source."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from pydantic import Field, PositiveInt, field_validator

from regard.evaluation.metrics import check_lines
from regard.evaluation.scores import Score, ScoreSettings, build_metrics, score_counts
from regard.settings import Settings
from regard.text.word_units import count_units


class LengthSettings(Settings):
    """How sentences are grouped by length."""

    unit: Literal["words", "characters"] = "words"
    """What a length counts; words are what white space parts, or letters in scripts without it."""
    edges: tuple[PositiveInt, ...] = ()
    """The longest length of each group but the last, which is open; empty: equal shares."""
    groups: Annotated[int, Field(ge=2)] = 5
    """How many equal shares; fewer come out where many sentences are of one length."""

    @field_validator("edges")
    @classmethod
    def _check_increasing(cls, edges: tuple[int, ...]) -> tuple[int, ...]:
        if list(edges) != sorted(set(edges)):
            raise ValueError(f"edges must rise, got {edges}")
        return edges


@dataclass(frozen=True)
class LengthGroup:
    """The sentences of a range of lengths, and their scores."""

    shortest: int
    longest: int
    count: int
    scores: tuple[Score, ...]


def score_by_length(
    sources: Sequence[str],
    hypotheses: Sequence[str],
    references: Sequence[str],
    lengths: LengthSettings,
    settings: ScoreSettings,
) -> list[LengthGroup]:
    """The scores of each group of source lengths, the shortest first; no group is empty."""
    check_lines(sources=sources, hypotheses=hypotheses, references=references)
    sizes = [(count_units if lengths.unit == "words" else len)(line) for line in sources]
    edges = list(lengths.edges) or _equal_shares(sizes, lengths.groups)
    group_of_line = np.array([bisect_left(edges, size) for size in sizes])  # (N,)
    metrics = build_metrics(settings, references)
    counts = [metric.count(hypotheses, references) for metric in metrics]
    groups = []
    for group in np.unique(group_of_line):
        rows = np.flatnonzero(group_of_line == group)
        in_group = [sizes[row] for row in rows]
        scores = (
            score_counts(metric, lines[rows], settings)
            for metric, lines in zip(metrics, counts, strict=True)
        )
        groups.append(LengthGroup(min(in_group), max(in_group), len(in_group), tuple(scores)))
    return groups


def _equal_shares(sizes: Sequence[int], groups: int) -> list[int]:
    """The longest length of each share but the last; equal lengths are in one share."""
    ordered = sorted(sizes)
    cuts = (ordered[max(1, len(ordered) * share // groups) - 1] for share in range(1, groups))
    return sorted(set(cuts))
