"""What every search obeys: how long an answer may be, and what it may and must say."""

from collections.abc import Sequence
from copy import copy
from itertools import chain
from typing import NamedTuple

import torch
from torch import Tensor

from regard.decoding.constraints.filters import (
    NEG_INF,
    Filter,
    forbid_phrases,
    forbid_tokens,
    min_length,
    no_repeated_ngrams,
)
from regard.decoding.gpu.async_copy import is_on_cpu
from regard.decoding.search.hypotheses import Hypotheses
from regard.decoding.settings import RuleSettings
from regard.kernels.topk_logits import TokenRules
from regard.text.special_tokens import BOS, EOS, PAD, UNK

MIN_LOG_PROB = -1e4
"""The log-probability of a token that the model holds impossible and that must be said anyway."""


class Constraints(NamedTuple):
    """What the answers to the sentences of one batch must and must not say, in ids."""

    prefixes: Sequence[Sequence[int]] | None = None
    """How each sentence's answers must begin; none: as they like."""
    forbidden: Sequence[Sequence[int]] = ()
    """Phrases that no answer may hold."""

    def of(self, places: Sequence[int]) -> "Constraints":
        """What it says of some sentences alone."""
        if self.prefixes is None:
            return self
        return self._replace(prefixes=[self.prefixes[place] for place in places])


NO_CONSTRAINTS = Constraints()
"""No demands."""


class Rules:
    """The settings, the prefixes and the forbidden phrases of one batch, as one filter.

    PAD and BOS are never said. A prefix is forced token by token, against every other rule but the
    length limit, which cuts it. Where the rules leave a hypothesis nothing to say, it may end.
    """

    def __init__(
        self,
        settings: RuleSettings,
        lengths: Tensor,
        prefixes: Sequence[Sequence[int]] | None = None,
        forbidden: Sequence[Sequence[int]] = (),
    ) -> None:
        where, sources = lengths.device, lengths.tolist()
        self.excluded = settings.excluded
        limits = {source: settings.limit(source) for source in set(sources)}
        self.limits: list[int] = [limits[source] for source in sources]
        excluded_tokens = [PAD, BOS] if settings.allow_unknown else [PAD, BOS, UNK]
        self._static_token_rules = TokenRules(
            tuple(excluded_tokens), EOS, MIN_LOG_PROB, self.excluded == "lost"
        )
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
            filled = [[*prefix, *[PAD] * (longest - len(prefix))] for prefix in prefixes]
            self.prefixes = torch.tensor(filled, dtype=torch.long, device=where)  # (B, P)
        self._ids = sorted(set(chain(*(prefixes or ()), *forbidden)))

    def token_rules(self, hypotheses: Hypotheses) -> TokenRules | None:
        """What may be said next, where that is the same at all times; None: there is more to it."""
        free = len(self.filters) == 1 and hypotheses.length >= self.prefixes.shape[1]
        return self._static_token_rules if free else None

    def without_prefixes(self) -> "Rules":
        """The same, for hypotheses that have said all that they had to."""
        rules = copy(self)
        rules.prefixes = self.prefixes[:, :0]
        return rules

    def log_probs(self, logits: Tensor, hypotheses: Hypotheses) -> Tensor:
        """Log-probabilities (B, K, V) of what may be said next; it may write into `logits`."""
        precise = torch.promote_types(logits.dtype, torch.float32)
        if self.excluded == "lost":
            return self(logits.log_softmax(-1, dtype=precise), hypotheses)
        return self(logits, hypotheses).log_softmax(-1, dtype=precise)

    def __call__(self, log_probs: Tensor, hypotheses: Hypotheses) -> Tensor:
        """What is left of `log_probs` (B, K, V), into which it writes; some entry of each cell."""
        self.check_ids(log_probs.shape[-1])
        forced = self._forced_tokens(hypotheses)  # (B, 1, 1) or None
        if forced is None and len(self.filters) == 1:  # which leaves EOS as it is
            log_probs = self.filters[0](log_probs, hypotheses)
            if _all_can_end(log_probs):
                return log_probs
        required = torch.full_like(hypotheses.tokens[..., :1], EOS)  # (B, K, 1)
        if forced is not None:
            required = torch.where(forced == PAD, required, forced)
        required_log_prob = log_probs.gather(-1, required).clamp_min(MIN_LOG_PROB)  # (B, K, 1)
        for narrow in self.filters:
            log_probs = narrow(log_probs, hypotheses)
        is_forced = log_probs.amax(-1, keepdim=True) == NEG_INF  # (B, K, 1)
        if forced is not None:
            is_forced |= forced != PAD
            log_probs.masked_fill_(is_forced, NEG_INF)
        kept_log_prob = torch.where(
            is_forced, required_log_prob, log_probs.gather(-1, required)
        )  # (B, K, 1)
        return log_probs.scatter_(-1, required, kept_log_prob)

    def _forced_tokens(self, hypotheses: Hypotheses) -> Tensor | None:
        """What each sentence must say next (B, 1, 1), PAD: as it likes; None: all as they like."""
        if hypotheses.length >= self.prefixes.shape[1]:
            return None
        return self.prefixes[hypotheses.rows, hypotheses.length, None, None]

    def check_ids(self, size: int) -> None:
        """An error where a prefix or a forbidden phrase holds what a vocabulary does not."""
        if self._ids and not 0 <= self._ids[0] <= self._ids[-1] < size:
            raise ValueError(
                f"ids of prefixes and forbidden phrases must lie in 0..{size - 1}, the decoder's "
                f"vocabulary; got {self._ids[0]}..{self._ids[-1]}"
            )


def _all_can_end(log_probs: Tensor) -> bool:
    """Whether every cell (B, K, V) may end, and so has something to say.

    On a CPU to ask costs less than to make sure. Elsewhere what would have to be looked at is all
    that a model has to say of each cell, to find what models do not do: to hold EOS altogether
    impossible. There it becomes `FLOOR` at the least, and a way of last resort in any case.
    """
    if is_on_cpu(log_probs):
        return not bool((log_probs[..., EOS] == NEG_INF).any())
    log_probs[..., EOS].clamp_min_(MIN_LOG_PROB)
    return True


def _check_prefixes(prefixes: Sequence[Sequence[int]], sentences: int) -> None:
    """An error unless there is one for each sentence and none holds what only batches hold."""
    if len(prefixes) != sentences:
        raise ValueError(f"expected {sentences} prefixes, one a sentence, got {len(prefixes)}")
    for number, prefix in enumerate(prefixes):
        if wrong := {PAD, BOS, EOS}.intersection(prefix):
            raise ValueError(
                f"prefix {number} holds the special ids {sorted(wrong)}: give the ids of its "
                "text alone"
            )
