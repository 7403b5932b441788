"""What a hypothesis may not say next.

A filter takes log-probabilities (B, K, V) and the grid they belong to, sets what is forbidden to
-inf, and gives them back; it may write into what it was given. What it forbids depends on a
hypothesis alone, never on its neighbours.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, device

from regard.decoding.search.hypotheses import Hypotheses
from regard.text.special_tokens import EOS, PAD

Filter = Callable[[Tensor, Hypotheses], Tensor]

NEG_INF = float("-inf")


def forbid_tokens(ids: Sequence[int], where: device) -> Filter:
    """None of `ids`, ever."""
    columns = torch.tensor(ids, device=where)

    def narrow(log_probs: Tensor, hypotheses: Hypotheses) -> Tensor:
        return log_probs.index_fill_(-1, columns, NEG_INF)

    return narrow


def min_length(least: int) -> Filter:
    """No EOS before `least` tokens."""

    def narrow(log_probs: Tensor, hypotheses: Hypotheses) -> Tensor:
        if hypotheses.length < least:
            log_probs[..., EOS] = NEG_INF
        return log_probs

    return narrow


def no_repeated_ngrams(n: int) -> Filter:
    """No token that would end an n-gram which the hypothesis already holds."""

    def narrow(log_probs: Tensor, hypotheses: Hypotheses) -> Tensor:
        if hypotheses.length < n:
            return log_probs
        generated = hypotheses.tokens[..., 1:]  # (B, K, t)
        ngrams = generated.unfold(-1, n, 1)  # (B, K, t - n + 1, n)
        suffix = generated[..., hypotheses.length - n + 1 :]  # (B, K, n - 1)
        repeated = (ngrams[..., :-1] == suffix[..., None, :]).all(-1)  # (B, K, t - n + 1)
        return _forbid(log_probs, ngrams[..., -1], repeated)

    return narrow


def forbid_phrases(phrases: Sequence[Sequence[int]], where: device) -> Filter:
    """No token that would end one of `phrases`, each of one id or more."""
    by_length = defaultdict(list)
    for phrase in phrases:
        by_length[len(phrase)].append(list(phrase))
    tables = [torch.tensor(same, device=where) for same in by_length.values()]  # (P, m) each

    def narrow(log_probs: Tensor, hypotheses: Hypotheses) -> Tensor:
        for table in tables:
            before = table.shape[1] - 1
            if hypotheses.length < before:
                continue
            suffix = hypotheses.tokens[..., hypotheses.tokens.shape[-1] - before :]  # (B, K, m - 1)
            matched = (suffix[..., None, :] == table[:, :-1]).all(-1)  # (B, K, P)
            log_probs = _forbid(log_probs, table[:, -1].expand_as(matched), matched)
        return log_probs

    return narrow


def _forbid(log_probs: Tensor, tokens: Tensor, where: Tensor) -> Tensor:
    """Without `tokens` (B, K, X) `where` (B, K, X) is True; PAD, never said, stands for none."""
    return log_probs.scatter_(-1, tokens.masked_fill(~where, PAD), NEG_INF)
