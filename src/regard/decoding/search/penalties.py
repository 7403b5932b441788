"""The score that ranks finished hypotheses (Wu et al. 2016, section 7).

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
"""Lengths beyond the last step in a static table: the last token and EOS."""
COVERAGE_FLOOR = 1e-6
"""The least coverage of a source position, so that its logarithm is finite."""


def length_penalty(length: int, alpha: float, normalise: Normalise) -> float:
    """lp(Y) for |Y| = `length`: 1 at a length of 1, and rising with it where alpha > 0."""
    return math.pow(length if normalise == "power" else (5 + length) / 6, alpha)


def coverage_penalty(coverage: Tensor, real: Tensor, beta: float) -> Tensor:
    """cp(X, Y) <= 0 from the coverage (B, K, S) of `real` (B, S) positions: (B, K)."""
    logs = coverage.clamp(COVERAGE_FLOOR, 1.0).log()  # (B, K, S)
    return beta * logs.masked_fill(~real[:, None], 0.0).sum(-1)  # (B, K)


class _StaticFactors(NamedTuple):
    """Length factors whose step is counted on the device."""

    factors: Tensor  # (steps + margin,)
    step_counter: Tensor  # ()


class Penalties:
    """Scores of the hypotheses of one batch, and bounds of the scores they may reach."""

    def __init__(self, settings: BeamSettings, lengths: Tensor, limits: Sequence[int]) -> None:
        self.alpha, self.beta = settings.length_penalty, settings.coverage_penalty
        self.normalise, self.lengths = settings.normalise, lengths
        self._static_factors: _StaticFactors | None = None
        each = {limit: self._factor(limit) for limit in set(limits)}
        factors = torch.tensor([each[limit] for limit in limits])  # (B,)
        self.min_factors = factors.nextafter(torch.zeros(())).to(lengths.device)  # (B,)
        """1 / lp at the limit of each sentence, rounded towards zero: a bound errs upwards."""

    def score(self, log_probs: Tensor, length: int, coverage: Tensor | None) -> Tensor:
        """Scores of hypotheses (B, C) of `length` tokens with EOS, `coverage` being their cp."""
        scores = log_probs * self.factor(length)
        return scores if coverage is None else scores + coverage

    def unfinished_scores(self, hypotheses: Hypotheses) -> Tensor:
        """Scores (B, K) of the growing hypotheses, without EOS."""
        return self.score(hypotheses.log_probs, hypotheses.length, self.coverage(hypotheses))

    def coverage(self, hypotheses: Hypotheses) -> Tensor | None:
        """cp of each hypothesis (B, K); None without a coverage penalty."""
        if hypotheses.coverage is None:
            return None
        places = torch.arange(hypotheses.coverage.shape[-1], device=self.lengths.device)  # (S,)
        real = places < self.lengths[hypotheses.sentence_index, None]  # (B, S)
        return coverage_penalty(hypotheses.coverage, real, self.beta)

    def bound(self, hypotheses: Hypotheses) -> Tensor:
        """A score (B,) that no continuation can exceed; -inf if all slots are empty.

        Proof: let g <= 0 be the log-probability of a hypothesis. Each further token adds the
        logarithm of a probability, at most 0, so any continuation has log P <= g. Its length is at
        most the limit L of its sentence, and both definitions of lp rise with the length
        (alpha >= 0), so log P / lp(Y) <= g / lp(Y) <= g / lp(L), as g is not positive. And
        cp <= 0. So the largest g / lp(L) over the hypotheses bounds them all; rounding is
        monotonic.
        """
        return (hypotheses.log_probs * self.min_factors[hypotheses.sentence_index, None]).amax(-1)

    def factor(self, length: int) -> float | Tensor:
        """1 / lp of `length` tokens with EOS: a number, or a tensor (1,) after `to_static`."""
        if self._static_factors is None:
            return self._factor(length)
        factors, step_counter = self._static_factors
        return factors.index_select(0, (step_counter + length)[None])  # (1,)

    def to_static(
        self, before: int, steps: int, step_counter: Tensor, dtype: torch.dtype = torch.float32
    ) -> "Penalties":
        """The same for hypotheses that are longer than their tokens: by `before` + `step_counter`.

        `step_counter` () counts up to `steps` on the device; `dtype` is that of log-probabilities.
        """
        lengths = range(before, before + steps + MARGIN)
        each = [self._factor(max(1, length)) for length in lengths]
        factors = torch.tensor(each, dtype=dtype)  # (steps + margin,)
        static = copy(self)
        static._static_factors = _StaticFactors(factors.to(step_counter.device), step_counter)
        return static

    def _factor(self, length: int) -> float:
        return 1 / length_penalty(length, self.alpha, self.normalise)


class MeanAttention:
    """A hook that averages the attention of each hypothesis to the source during one step."""

    def __init__(self, hook: AttentionHook | None) -> None:
        self._hook = hook
        self._recorded: list[Tensor] = []  # (B, K, S) each

    def __call__(self, site: Site, weights: Tensor, /) -> Tensor:
        """Call the inner hook and record cross-attention weights."""
        if self._hook is not None:
            weights = self._hook(site, weights)
        if site.part == "cross":
            precise = torch.promote_types(weights.dtype, torch.float32)
            self._recorded.append(weights.mean(1, dtype=precise))  # (B, K, S)
        return weights

    def collect(self) -> Tensor:
        """The mean over heads and layers (B, K, S) since the last call."""
        if not self._recorded:
            raise SearchError(
                "a coverage penalty needs attention to the source, and this model has none: "
                "set coverage_penalty to 0"
            )
        recorded, self._recorded = self._recorded, []
        return torch.stack(recorded).mean(0)
