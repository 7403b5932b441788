"""The nouns that cross folders and hold no tensor, so that who needs no model needs no torch."""

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True)
class Hypothesis:
    """One answer of a search."""

    tokens: tuple[int, ...]
    """Token ids without BOS and EOS."""
    score: float
    """What the search ranked it by: the log-probability after the penalties."""
    log_probability: float
    """Sum of the natural logarithms of the probabilities of its tokens, EOS included: those that
    the rules of the search left them (see `RuleSettings.excluded`)."""
    finished: bool
    """Whether it ended in EOS, rather than at the length limit."""


Link = tuple[int, int]
"""A source word and a target word that belong together, counted from 0; words as `split_units`."""


class GoldAlignment(NamedTuple):
    """What people (or a grammar) say belongs together in one pair of sentences."""

    sure: frozenset[Link]
    possible: frozenset[Link]  # holds the sure ones too
