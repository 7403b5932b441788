"""Hypotheses that still grow, and the ways in which they may."""

from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import torch
from torch import Tensor, device

from regard.models.contracts import gather_parents
from regard.text.special_tokens import BOS, EOS


class Candidates(NamedTuple):
    """Ways to go on with each sentence, the best first."""

    log_probs: Tensor  # (B, C) of the hypothesis so made; -inf: there is no such way
    tokens: Tensor  # (B, C) what it adds
    parents: Tensor | None  # (B, C) the cell that it continues; None: cell c, and C is K

    def ending(self, num: int) -> "Candidates":
        """The `num` best (B, <= num); those of them that do not end have a log-prob of -inf."""
        parents = None if self.parents is None else self.parents[:, :num]
        tokens = self.tokens[:, :num]
        log_probs = self.log_probs[:, :num].masked_fill(tokens != EOS, float("-inf"))
        return Candidates(log_probs, tokens, parents)

    def continuing(self, num: int) -> "Candidates":
        """The `num` best that do not end; too few are filled up with ways of log-prob -inf."""
        ends = self.tokens == EOS  # (B, C)
        log_probs = self.log_probs.masked_fill(ends, float("-inf"))
        if self.parents is None:
            return Candidates(log_probs, self.tokens, None)
        order = ends.int().sort(dim=1, stable=True).indices[:, :num]  # (B, <= num)
        return Candidates(*(x.gather(1, order) for x in (log_probs, self.tokens, self.parents)))


@dataclass(frozen=True)
class Hypotheses:
    """K hypotheses for each of the B sentences that are still being searched; a value."""

    rows: Tensor  # (B,) number of each sentence in the batch as the search was given it
    tokens: Tensor  # (B, K, 1 + t) BOS and what was said so far
    log_probs: Tensor  # (B, K); -inf: the cell is empty, whatever else it holds
    coverage: Tensor | None = None  # (B, K, S) attention that each source position has had

    @classmethod
    def start(cls, sentences: int, width: int, where: device) -> Self:
        """A grid (B, K) in which nothing has been said."""
        return cls(
            rows=torch.arange(sentences, device=where),
            tokens=torch.full((sentences, width, 1), BOS, device=where),
            log_probs=torch.zeros(sentences, width, device=where),
        )

    @property
    def length(self) -> int:
        """Tokens said so far, BOS not counted."""
        return self.tokens.shape[-1] - 1

    def select_sentences(self, sentences: Tensor) -> "Hypotheses":
        """The grid of `sentences` (B',) alone."""
        coverage = None if self.coverage is None else self.coverage[sentences]
        return Hypotheses(
            self.rows[sentences], self.tokens[sentences], self.log_probs[sentences], coverage
        )

    def extend(self, candidates: Candidates) -> "Hypotheses":
        """The grid after `ways` (B, K'): one token longer."""
        past, coverage = self.tokens, self.coverage
        if candidates.parents is not None:
            past = gather_parents(past, candidates.parents)  # (B, K', 1 + t)
            coverage = (
                None if coverage is None else gather_parents(coverage, candidates.parents)
            )  # (B, K', S)
        tokens = torch.cat([past, candidates.tokens[..., None]], -1)  # (B, K', 2 + t)
        return Hypotheses(self.rows, tokens, candidates.log_probs, coverage)

    def add_coverage(self, weights: Tensor) -> "Hypotheses":
        """The grid after one more look at the source, `weights` (B, K, S)."""
        seen = weights if self.coverage is None else self.coverage + weights
        return replace(self, coverage=seen)
