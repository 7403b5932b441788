"""The hypotheses of a search, growing and finished, and the score that ranks them.

score(Y) = log P(Y | X) / lp(Y) + cp(X, Y)  (Wu et al. 2016, section 7)
lp(Y) = |Y|^alpha, or ((5 + |Y|) / 6)^alpha as in the paper, where |Y| counts the tokens with EOS
cp(X, Y) = beta Σ_i log min(Σ_j p_ij, 1), over the real source positions i and the steps j of Y
"""

import math
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor, device

from regard.decoding.settings import BeamSettings, Normalise
from regard.errors import SearchError
from regard.kernels.beam_update import Candidates, NBest
from regard.models.contracts import gather_parents
from regard.text.special_tokens import BOS, EOS, PAD
from regard.types import AttentionHook, Hypothesis, Site

NEG_INF = float("-inf")
MARGIN = 3  # lengths beyond the last step in a static table: its token, EOS, one more
COVERAGE_FLOOR = 1e-6  # the least coverage of a source position, so that its logarithm is finite


@dataclass(frozen=True)
class Hypotheses:
    """K growing hypotheses for each of the B sentences of a batch; immutable."""

    sentence_index: Tensor  # (B,) index of each sentence in the batch that the search was given
    tokens: Tensor  # (B, K, 1 + t) BOS, or the last token of a prompt, and the tokens so far
    log_probs: Tensor  # (B, K); -inf: an empty slot, whose tokens mean nothing
    coverage: Tensor | None = None  # (B, K, S) attention summed for each source position

    @classmethod
    def start(cls, sentences: int, width: int, where: device, first: Tensor | None = None) -> Self:
        """Hypotheses (B, K) that hold BOS alone, or each sentence's token of `first` (B,)."""
        tokens = torch.full((sentences, width, 1), BOS, device=where)
        if first is not None:
            tokens.copy_(first[:, None, None])
        return cls(
            sentence_index=torch.arange(sentences, device=where),
            tokens=tokens,
            log_probs=torch.zeros(sentences, width, device=where),
        )

    @property
    def length(self) -> int:
        """Tokens so far, BOS not counted."""
        return self.tokens.shape[-1] - 1

    def select_sentences(self, sentences: Tensor) -> "Hypotheses":
        """The hypotheses of `sentences` (B',) only."""
        coverage = None if self.coverage is None else self.coverage[sentences]
        index, tokens, log_probs = self.sentence_index, self.tokens, self.log_probs
        return Hypotheses(index[sentences], tokens[sentences], log_probs[sentences], coverage)

    def extend(self, candidates: Candidates) -> "Hypotheses":
        """The hypotheses of `candidates` (B, K'): one token longer."""
        tokens, coverage = self.tokens, self.coverage
        if candidates.parents is not None:
            tokens = gather_parents(tokens, candidates.parents)  # (B, K', 1 + t)
            if coverage is not None:
                coverage = gather_parents(coverage, candidates.parents)  # (B, K', S)
        tokens = torch.cat([tokens, candidates.tokens[..., None]], -1)  # (B, K', 2 + t)
        return Hypotheses(self.sentence_index, tokens, candidates.log_probs, coverage)

    def add_coverage(self, weights: Tensor) -> "Hypotheses":
        """The same hypotheses, with the attention `weights` (B, K, S) of one more step counted."""
        coverage = weights if self.coverage is None else self.coverage + weights
        return replace(self, coverage=coverage)


def ending_candidates(candidates: Candidates, num: int) -> Candidates:
    """The `num` best candidates; those that do not end in EOS get a log-probability of -inf."""
    parents = None if candidates.parents is None else candidates.parents[:, :num]
    tokens = candidates.tokens[:, :num]
    log_probs = candidates.log_probs[:, :num].masked_fill(tokens != EOS, NEG_INF)
    return Candidates(log_probs, tokens, parents)  # (B, <= num)


def continuing_candidates(candidates: Candidates, num: int) -> Candidates:
    """The `num` best candidates that do not end; missing ones have a log-probability of -inf.

    This prunes the beam from the 2K candidates of `BeamSelector` to K. Without parents (greedy
    search, sampling) each hypothesis has one candidate, and none is pruned.
    """
    ends = candidates.tokens == EOS  # (B, C)
    log_probs = candidates.log_probs.masked_fill(ends, NEG_INF)
    if candidates.parents is None:
        return Candidates(log_probs, candidates.tokens, None)
    order = ends.int().sort(dim=1, stable=True).indices[:, :num]  # (B, <= num)
    columns = (log_probs, candidates.tokens, candidates.parents)
    return Candidates(*(x.gather(1, order) for x in columns))


def empty_n_best(sentences: int, slots: int, where: device) -> NBest:
    """Empty slots (B, N)."""
    scores = torch.full((sentences, slots), NEG_INF, device=where)
    tokens = torch.full((sentences, slots, 1), BOS, device=where)
    return NBest(scores, scores, tokens, torch.ones_like(scores, dtype=torch.bool))


def select_n_best(n_best: NBest, sentences: Tensor) -> NBest:
    """The finished hypotheses of `sentences` (B',) only."""
    return NBest(*(x[sentences] for x in n_best))


def add_finished(n_best: NBest, new: NBest, is_done: Tensor | None = None) -> NBest:
    """The best of both; of equal scores the older come first. Sentences that are done (B,) keep
    theirs in their order, in which truncated ones may come behind others of a lower score.
    """
    scores = n_best.scores
    ranks = scores if is_done is None else scores.masked_fill(is_done[:, None], float("inf"))
    return _merge(n_best, new, ranks)


def fill_slots(n_best: NBest, new: NBest) -> NBest:
    """`n_best` with the best of `new` (B, M) in its empty slots."""
    ranks = n_best.scores.masked_fill(n_best.scores > NEG_INF, float("inf"))
    return _merge(n_best, new, ranks)


def _merge(n_best: NBest, new: NBest, ranks: Tensor) -> NBest:
    """The N best of both, ordered by `ranks` (B, N) and the scores of `new` (B, M)."""
    ranks = torch.cat([ranks, new.scores], 1)  # (B, N + M)
    order = ranks.sort(dim=1, descending=True, stable=True).indices  # (B, N + M)
    best = order[:, : n_best.scores.shape[1]]  # (B, N)
    padding = new.tokens.shape[-1] - n_best.tokens.shape[-1]
    padded = n_best._replace(tokens=F.pad(n_best.tokens, (0, padding), value=PAD))
    pairs = zip(padded, new, strict=True)
    return NBest(*(gather_parents(torch.cat(pair, 1), best) for pair in pairs))


def length_penalty(length: int, alpha: float, normalise: Normalise) -> float:
    """lp(Y) for |Y| = `length`: 1 at a length of 1, and rising with it where alpha > 0."""
    return math.pow(length if normalise == "power" else (5 + length) / 6, alpha)


def coverage_penalty(coverage: Tensor, real: Tensor, beta: float) -> Tensor:
    """cp(X, Y) <= 0 from the coverage (B, K, S) of `real` (B, S) positions: (B, K)."""
    logs = coverage.clamp(COVERAGE_FLOOR, 1.0).log()  # (B, K, S)
    return beta * logs.masked_fill(~real[:, None], 0.0).sum(-1)  # (B, K)


class Penalties:
    """Scores of the hypotheses of one batch, and bounds of the scores they may reach."""

    def __init__(self, settings: BeamSettings, lengths: Tensor, limits: Sequence[int]) -> None:
        self.alpha, self.beta = settings.length_penalty, settings.coverage_penalty
        self.normalise, self.lengths = settings.normalise, lengths
        self._static_factors: tuple[Tensor, Tensor] | None = None  # (steps + margin,) and ()
        each = {limit: self._factor(limit) for limit in set(limits)}
        factors = torch.tensor([each[limit] for limit in limits])  # (B,)
        self.min_factors = factors.nextafter(torch.zeros(())).to(lengths.device)  # (B,)
        """1 / lp at the limit of each sentence, rounded towards zero: a bound errs upwards."""

    def score(self, log_probs: Tensor, length: int, coverage: Tensor | None) -> Tensor:
        """Scores of hypotheses (B, C) of `length` tokens with EOS, `coverage` being their cp."""
        scores = log_probs * self.factor(length)
        return scores if coverage is None else scores + coverage

    def unfinished_scores(self, hypotheses: Hypotheses, more: int = 0) -> Tensor:
        """Scores (B, K) of the growing hypotheses, without EOS, or with `more` certain tokens."""
        length = hypotheses.length + more
        return self.score(hypotheses.log_probs, length, self.coverage(hypotheses))

    def coverage(self, hypotheses: Hypotheses) -> Tensor | None:
        """cp of each hypothesis (B, K); None without a coverage penalty."""
        if hypotheses.coverage is None:
            return None
        places = torch.arange(hypotheses.coverage.shape[-1], device=self.lengths.device)  # (S,)
        real = places < self.lengths[hypotheses.sentence_index, None]  # (B, S)
        return coverage_penalty(hypotheses.coverage, real, self.beta)

    def bound(self, hypotheses: Hypotheses) -> Tensor:
        """A score (B,) that no continuation can exceed; -inf if all slots are empty.

        Proof: a continuation of a hypothesis of log-probability g <= 0 has log P <= g and, as alpha
        >= 0, lp(Y) <= lp(L) at the length limit L: log P / lp(Y) <= g / lp(L). And cp <= 0.
        Rounding is monotonic.
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
        """The same where true length = tokens held + `before` + `step_counter` ().

        The counter counts up to `steps` on the device; `dtype` is that of log-probabilities.
        """
        lengths = range(before, before + steps + MARGIN)
        each = [self._factor(max(1, length)) for length in lengths]
        factors = torch.tensor(each, dtype=dtype)  # (steps + margin,)
        static = copy(self)
        static._static_factors = factors.to(step_counter.device), step_counter
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


def to_lists(n_best: NBest, count: int) -> list[list[Hypothesis]]:
    """At most `count` hypotheses of each sentence, the best first.

    Tensors are read as flat lists: many nested ones would make Python's garbage collector run
    often.
    """
    scores, log_probs, tokens, ended = (x[:, :count] for x in n_best)
    if bool(scores.isnan().any()):
        raise SearchError(
            "the model's output is not a number (NaN): its weights are damaged, or overflow "
            "in the precision in use; try float32"
        )
    (num, width), lengths = tokens.shape[1:], 1 + (tokens[..., 1:] != PAD).sum(-1)
    flat_tokens: list[int] = tokens.flatten().tolist()
    columns = (x.flatten().tolist() for x in (scores, log_probs, lengths, ended))
    rows = zip(range(0, len(flat_tokens), width), *columns, strict=True)
    hypotheses = [
        Hypothesis(tuple(flat_tokens[first + 1 : first + length]), score, log_prob, ends)
        for first, score, log_prob, length, ends in rows
    ]
    return [
        [each for each in hypotheses[first : first + num] if each.score != -math.inf]
        for first in range(0, len(hypotheses), num)
    ]
