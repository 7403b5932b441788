"""The hypotheses of a search: those that still grow, their candidates, and the n best finished."""

import math
from dataclasses import dataclass, replace
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor, device

from regard.errors import SearchError
from regard.kernels.beam_update import Candidates, NBest
from regard.models.contracts import gather_parents
from regard.text.special_tokens import BOS, EOS, PAD
from regard.types import Hypothesis

NEG_INF = float("-inf")


@dataclass(frozen=True)
class Hypotheses:
    """K growing hypotheses for each of the B sentences of a batch; immutable."""

    sentence_index: Tensor  # (B,) index of each sentence in the batch that the search was given
    tokens: Tensor  # (B, K, 1 + t) BOS and the tokens so far
    log_probs: Tensor  # (B, K); -inf: an empty slot, whatever its tokens are
    coverage: Tensor | None = None  # (B, K, S) attention summed for each source position

    @classmethod
    def start(cls, sentences: int, width: int, where: device) -> Self:
        """Hypotheses (B, K) that hold BOS alone."""
        return cls(
            sentence_index=torch.arange(sentences, device=where),
            tokens=torch.full((sentences, width, 1), BOS, device=where),
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
        """The hypotheses that `candidates` (B, K') make: one token longer."""
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
    """The `num` best candidates that do not end; missing ones have a log-probability of -inf."""
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


def add_finished(n_best: NBest, new: NBest) -> NBest:
    """The best of both; at equal scores, the older ones first.

    Hypotheses that were cut at a length limit rank behind all that ended.
    """
    return _merge(n_best, new, torch.where(n_best.ended, n_best.scores, NEG_INF))


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


def to_lists(n_best: NBest, count: int) -> list[list[Hypothesis]]:
    """At most `count` hypotheses of each sentence, the best first.

    The tensors are read as flat lists: a nested list for each sentence would make Python's garbage
    collector run often.
    """
    scores, log_probs, tokens, ended = (x[:, :count] for x in n_best)
    if bool(scores.isnan().any()):
        raise SearchError(
            "the model's output is not a number (NaN): its weights are damaged, or overflow "
            "in the precision in use; try float32"
        )
    (num, width), lengths = tokens.shape[1:], (tokens != PAD).sum(-1)  # BOS included
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
