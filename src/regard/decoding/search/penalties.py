"""What a hypothesis is ranked by (Wu et al. 2016, section 7).

score(Y) = log P(Y | X) / lp(Y) + cp(X, Y)
lp(Y) = |Y|^alpha, or ((5 + |Y|) / 6)^alpha as in the paper, where |Y| counts the tokens with EOS
cp(X, Y) = beta Σ_i log min(Σ_j p_ij, 1), over the real source positions i and the steps j of Y
"""

import math
from collections.abc import Sequence
from copy import copy
from typing import NamedTuple

import torch
from torch import Tensor

from regard.decoding.search.hypotheses import Hypotheses
from regard.decoding.settings import BeamSettings, Normalise
from regard.errors import SearchError
from regard.types import AttentionHook, Site

MARGIN = 2
"""The longest that a hypothesis may seem: its last token, and EOS."""
COVERAGE_FLOOR = 1e-6
"""The least attention that a source position counts as having had, so that its logarithm is one."""


def length_penalty(length: int, alpha: float, normalise: Normalise) -> float:
    """lp(Y) for |Y| = `length`: 1 at a length of 1, and rising with it where alpha > 0."""
    return math.pow(length if normalise == "power" else (5 + length) / 6, alpha)


def coverage_penalty(coverage: Tensor, real: Tensor, beta: float) -> Tensor:
    """cp(X, Y) <= 0 from the attention had (B, K, S) at `real` (B, S) positions: (B, K)."""
    logs = coverage.clamp(COVERAGE_FLOOR, 1.0).log()  # (B, K, S)
    return beta * logs.masked_fill(~real[:, None], 0.0).sum(-1)  # (B, K)


class _StaticFactors(NamedTuple):
    """Factors for lengths that a device counts."""

    factors: Tensor  # (steps + margin,)
    step_counter: Tensor  # ()


class Penalties:
    """How the hypotheses of one batch are scored, and how well they may yet score."""

    def __init__(self, settings: BeamSettings, lengths: Tensor, limits: Sequence[int]) -> None:
        self.alpha, self.beta = settings.length_penalty, settings.coverage_penalty
        self.normalise, self.lengths = settings.normalise, lengths
        self._static_factors: _StaticFactors | None = None
        each = {limit: self._factor(limit) for limit in set(limits)}
        factors = torch.tensor([each[limit] for limit in limits])  # (B,)
        self.min_factors = factors.nextafter(torch.zeros(())).to(lengths.device)  # (B,)
        """Of each sentence at its limit, rounded towards zero: so a bound errs upwards."""

    def score(self, log_probs: Tensor, length: int, coverage: Tensor | None) -> Tensor:
        """Scores of hypotheses (B, C) of `length` tokens with EOS, `coverage` being their cp."""
        scores = log_probs * self.factor(length)
        return scores if coverage is None else scores + coverage

    def unfinished_scores(self, hypotheses: Hypotheses) -> Tensor:
        """Scores of the cells (B, K) as they are, without EOS."""
        return self.score(hypotheses.log_probs, hypotheses.length, self.coverage(hypotheses))

    def coverage(self, hypotheses: Hypotheses) -> Tensor | None:
        """cp of each cell (B, K); None where it plays no part."""
        if hypotheses.coverage is None:
            return None
        places = torch.arange(hypotheses.coverage.shape[-1], device=self.lengths.device)  # (S,)
        real = places < self.lengths[hypotheses.rows, None]  # (B, S)
        return coverage_penalty(hypotheses.coverage, real, self.beta)

    def bound(self, hypotheses: Hypotheses) -> Tensor:
        """A score (B,) that nothing which grows out of the grid can exceed; -inf: all are empty.

        Proof: let g <= 0 be the log-probability of a cell. Each further token adds a logarithm of
        a probability, at most 0, so any offspring has log P <= g. Its length is at most the limit
        L of its sentence and both definitions of lp rise with the length (alpha >= 0), so
        log P / lp(Y) <= g / lp(Y) <= g / lp(L), as g is not positive. And cp <= 0. So g / lp(L),
        the largest over the cells, bounds them all; rounding keeps the order of what is added and
        multiplied.
        """
        return (hypotheses.log_probs * self.min_factors[hypotheses.rows, None]).amax(-1)

    def factor(self, length: int) -> float | Tensor:
        """What the log-probability of a hypothesis of `length` tokens with EOS counts."""
        if self._static_factors is None:
            return self._factor(length)
        factors, step_counter = self._static_factors
        return factors.index_select(0, (step_counter + length)[None])  # (1,)

    def to_static(
        self, before: int, steps: int, step_counter: Tensor, dtype: torch.dtype = torch.float32
    ) -> "Penalties":
        """The same for hypotheses that are longer than they seem: by `before`, and by a `clock` ().

        The clock counts up to so many `steps`; `dtype` is that of log-probabilities.
        """
        lengths = range(before, before + steps + MARGIN)
        each = [self._factor(max(1, length)) for length in lengths]
        factors = torch.tensor(each, dtype=dtype)  # (steps + margin,)
        to_static = copy(self)
        to_static._static_factors = _StaticFactors(factors.to(step_counter.device), step_counter)
        return to_static

    def _factor(self, length: int) -> float:
        return 1 / length_penalty(length, self.alpha, self.normalise)


class MeanAttention:
    """A watch that adds up the attention which each cell pays the source during one step."""

    def __init__(self, hook: AttentionHook | None) -> None:
        self._hook = hook
        self._seen: list[Tensor] = []  # (B, K, S) each

    def __call__(self, site: Site, weights: Tensor, /) -> Tensor:
        """What the watch within answers, noted if it is attention to the source."""
        if self._hook is not None:
            weights = self._hook(site, weights)
        if site.part == "cross":
            precise = torch.promote_types(weights.dtype, torch.float32)
            self._seen.append(weights.mean(1, dtype=precise))  # (B, K, S)
        return weights

    def collect(self) -> Tensor:
        """The mean over heads and layers (B, K, S) since it was last asked."""
        if not self._seen:
            raise SearchError(
                "a coverage penalty needs attention to the source, and this model has none: "
                "set coverage_penalty to 0"
            )
        seen, self._seen = self._seen, []
        return torch.stack(seen).mean(0)
