"""Constraints of every search: length limits, excluded tokens, forced prefixes, banned phrases."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from copy import copy
from itertools import chain
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor, device

from regard.decoding.search.hypotheses import NEG_INF, Hypotheses
from regard.decoding.settings import RuleSettings
from regard.kernels.topk_logits import TokenRules
from regard.text.special_tokens import BOS, EOS, PAD, UNK

MIN_LOG_PROB = -1e4  # the log-probability of a forced token that the model considers impossible

T = TypeVar("T")
Filter = Callable[[Tensor, Hypotheses], Tensor]
"""Sets the log-probabilities (B, K, V) of forbidden next tokens to -inf, in place, and returns
them. What it forbids for a hypothesis does not depend on other hypotheses."""


class Constraints(NamedTuple):
    """Constraints on the answers of one batch, in ids."""

    prefixes: Sequence[Sequence[int]] | None = None  # one for each sentence; None: none has one
    forbidden: Sequence[Sequence[int]] = ()  # phrases that no answer may contain
    room: Sequence[int] | None = None  # the most tokens that each answer has room for; None: any
    first: Sequence[int] | None = None  # the token before each answer; None: BOS
    opening: int = 0  # so many tokens at the beginning of each prefix cost nothing

    def select(self, sentences: Sequence[int]) -> "Constraints":
        """The constraints of some sentences only."""
        return Constraints(
            _pick(self.prefixes, sentences),
            self.forbidden,
            _pick(self.room, sentences),
            _pick(self.first, sentences),
            self.opening,
        )


def _pick(every: Sequence[T] | None, sentences: Sequence[int]) -> list[T] | None:
    return None if every is None else [every[sentence] for sentence in sentences]


NO_CONSTRAINTS = Constraints()


class Rules:
    """The rules, prefixes and forbidden phrases of one batch as one filter.

    PAD and BOS are never generated. Only the length limit overrides a prefix. If no token is
    permitted, EOS is.
    """

    def __init__(
        self,
        settings: RuleSettings,
        lengths: Tensor,
        prefixes: Sequence[Sequence[int]] | None = None,
        forbidden: Sequence[Sequence[int]] = (),
        room: Sequence[int] | None = None,
        opening: int = 0,
    ) -> None:
        where, sources = lengths.device, lengths.tolist()
        self.excluded, self.opening = settings.excluded, opening
        limits = {source: settings.limit(source) for source in set(sources)}
        self.limits: list[int] = [limits[source] for source in sources]
        if room is not None:
            self.limits = [min(pair) for pair in zip(self.limits, room, strict=True)]
        self.at_limit, self.forced_tokens = settings.at_limit, settings.forced_tokens
        self.lengths = [limit + self.forced_tokens for limit in self.limits]
        """The most tokens of a hypothesis of each sentence, those counted that are not searched."""
        excluded_tokens = [PAD, BOS] if settings.allow_unknown else [PAD, BOS, UNK]
        keep_mass = self.excluded == "lost"
        self._static_token_rules = TokenRules(tuple(excluded_tokens), EOS, MIN_LOG_PROB, keep_mass)
        self.filters: list[Filter] = [forbid_tokens(excluded_tokens, where)]
        if settings.no_repeat_ngram:
            self.filters.append(no_repeated_ngrams(settings.no_repeat_ngram))
        if forbidden:
            if not all(forbidden):
                raise ValueError("a forbidden phrase must hold at least one id, got an empty one")
            self.filters.append(forbid_phrases(forbidden, where))
        if settings.min_length:
            self.filters.append(min_length(settings.min_length))
        self.prefixes = torch.empty(len(sources), 0, dtype=torch.long, device=where)  # (B, P)
        if prefixes is not None:
            _check_prefixes(prefixes, len(sources))
            longest = max(map(len, prefixes), default=0)
            padded = [[*prefix, *[PAD] * (longest - len(prefix))] for prefix in prefixes]
            self.prefixes = torch.tensor(padded, dtype=torch.long, device=where)  # (B, P)
        self._ids = sorted(set(chain(*(prefixes or ()), *forbidden)))

    def token_rules(self, hypotheses: Hypotheses) -> TokenRules | None:
        """The rules of the next step for a kernel; None: they depend on the hypotheses."""
        is_static = len(self.filters) == 1 and hypotheses.length >= self.prefixes.shape[1]
        return self._static_token_rules if is_static else None

    def without_prefixes(self) -> "Rules":
        """The same rules for hypotheses that are longer than all prefixes."""
        rules = copy(self)
        rules.prefixes = self.prefixes[:, :0]
        return rules

    def log_probs(self, logits: Tensor, hypotheses: Hypotheses) -> Tensor:
        """Log-probabilities (B, K, V) of the next tokens; `logits` may be overwritten."""
        precise = torch.promote_types(logits.dtype, torch.float32)
        if self.excluded == "lost":
            return self(logits.log_softmax(-1, dtype=precise), hypotheses)
        return self(logits, hypotheses).log_softmax(-1, dtype=precise)

    def __call__(self, log_probs: Tensor, hypotheses: Hypotheses) -> Tensor:
        """`log_probs` (B, K, V), filtered in place; each hypothesis keeps at least one token."""
        self.check_ids(log_probs.shape[-1])
        forced = self._forced_tokens(hypotheses)  # (B, 1, 1) or None
        if forced is None and len(self.filters) == 1:  # which never excludes EOS
            log_probs = self.filters[0](log_probs, hypotheses)
            if _all_can_end(log_probs):
                return log_probs
        required = torch.full_like(hypotheses.tokens[..., :1], EOS)  # (B, K, 1)
        if forced is not None:
            required = torch.where(forced == PAD, required, forced)
        required_log_prob = log_probs.gather(-1, required).clamp_min(MIN_LOG_PROB)  # (B, K, 1)
        if forced is not None and hypotheses.length < self.opening:
            required_log_prob = required_log_prob.masked_fill(forced != PAD, 0.0)
        for narrow in self.filters:
            log_probs = narrow(log_probs, hypotheses)
        is_forced = log_probs.amax(-1, keepdim=True) == NEG_INF  # (B, K, 1)
        if forced is not None:
            is_forced |= forced != PAD
            log_probs.masked_fill_(is_forced, NEG_INF)
        kept = torch.where(is_forced, required_log_prob, log_probs.gather(-1, required))
        return log_probs.scatter_(-1, required, kept)  # (B, K, V)

    def _forced_tokens(self, hypotheses: Hypotheses) -> Tensor | None:
        """The forced next token of each sentence (B, 1, 1), PAD: any; None: no token is forced."""
        if hypotheses.length >= self.prefixes.shape[1]:
            return None
        return self.prefixes[hypotheses.sentence_index, hypotheses.length, None, None]

    def check_ids(self, size: int) -> None:
        """Raise an error if an id of a prefix or a forbidden phrase is not in the vocabulary."""
        if self._ids and not 0 <= self._ids[0] <= self._ids[-1] < size:
            raise ValueError(
                f"ids of prefixes and forbidden phrases must lie in 0..{size - 1}, the decoder's "
                f"vocabulary; got {self._ids[0]}..{self._ids[-1]}"
            )


def forbid_tokens(ids: Sequence[int], where: device) -> Filter:
    """Forbid `ids` everywhere."""
    columns = torch.tensor(ids, device=where)

    def narrow(log_probs: Tensor, hypotheses: Hypotheses) -> Tensor:
        return log_probs.index_fill_(-1, columns, NEG_INF)

    return narrow


def min_length(least: int) -> Filter:
    """Forbid EOS before `least` tokens."""

    def narrow(log_probs: Tensor, hypotheses: Hypotheses) -> Tensor:
        if hypotheses.length < least:
            log_probs[..., EOS] = NEG_INF
        return log_probs

    return narrow


def no_repeated_ngrams(n: int) -> Filter:
    """Forbid tokens that would repeat an n-gram of the hypothesis."""

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
    """Forbid tokens that would complete one of `phrases`, each of one id or more."""
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


def _forbid(log_probs: Tensor, tokens: Tensor, mask: Tensor) -> Tensor:
    """Forbid `tokens` (B, K, X) where `mask` (B, K, X) is True; elsewhere PAD, never generated."""
    return log_probs.scatter_(-1, tokens.masked_fill(~mask, PAD), NEG_INF)


def is_on_cpu(x: Tensor) -> bool:
    """Whether reading a value of `x` is free: on a GPU the host would wait for the device."""
    return x.is_cpu


def _all_can_end(log_probs: Tensor) -> bool:
    """Whether EOS is possible for every hypothesis (B, K, V).

    On a GPU, so as not to wait for it, EOS gets at least `MIN_LOG_PROB` instead.
    """
    if is_on_cpu(log_probs):
        return not bool((log_probs[..., EOS] == NEG_INF).any())
    log_probs[..., EOS].clamp_min_(MIN_LOG_PROB)
    return True


def _check_prefixes(prefixes: Sequence[Sequence[int]], sentences: int) -> None:
    """Raise an error unless there is a prefix for each sentence and none contains special ids."""
    if len(prefixes) != sentences:
        raise ValueError(f"expected {sentences} prefixes, one a sentence, got {len(prefixes)}")
    for number, prefix in enumerate(prefixes):
        if wrong := {PAD, BOS, EOS}.intersection(prefix):
            raise ValueError(
                f"prefix {number} holds the special ids {sorted(wrong)}: give the ids of its "
                "text alone"
            )
