"""One step of a search: candidates are ranked, those that end are set aside, others continue.

A step itself never synchronizes with a GPU; the loop in `batch_search` reads `is_done` once per
step.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Generic, NamedTuple

import torch
from torch import Tensor

from regard.decoding.constraints.rules import Constraints, Rules, is_on_cpu
from regard.decoding.search.beam import BeamSelector
from regard.decoding.search.hypotheses import (
    NEG_INF,
    Hypotheses,
    MeanAttention,
    Penalties,
    add_finished,
    continuing_candidates,
    empty_n_best,
    ending_candidates,
    fill_slots,
    select_n_best,
)
from regard.decoding.search.sampling import SamplingSelector
from regard.decoding.settings import BeamSettings, DecodingSettings, Stop
from regard.kernels.beam_update import BeamUpdateConfig, Candidates, NBest, update_beam
from regard.kernels.dispatch import use_beam_update
from regard.models.contracts import Decoder, StateT, gather_parents
from regard.text.special_tokens import EOS, PAD
from regard.types import AttentionHook

SAMPLING_PENALTIES = BeamSettings(length_penalty=0.0)  # samples are ranked by their probability


@dataclass(frozen=True)
class SearchConfig:
    """How a batch is searched."""

    selector: BeamSelector | SamplingSelector
    """Selects the candidate continuations (B, C), the best first: the first `width` may end, and
    enough others follow to fill the beam."""
    rules: Rules
    penalties: Penalties
    n_best: int
    stop: Stop
    first: Tensor | None = None  # (B,) the token before each answer; None: BOS
    num_finished: int = 0  # that end a search with the stop `size`; at least the beam's width

    @classmethod
    def build(
        cls,
        settings: DecodingSettings,
        lengths: Tensor,
        constraints: Constraints,
        numbers: Sequence[int],
    ) -> "SearchConfig":
        """The configuration for sources of `lengths` (B,), known by their `numbers`."""
        prefixes, forbidden, room, firsts, opening = constraints
        rules = Rules(settings.rules, lengths, prefixes, forbidden, room, opening)
        first = None if firsts is None else torch.tensor(firsts, device=lengths.device)
        beam, n_best = settings.beam, settings.n_best
        if settings.sampling is None:
            penalties = Penalties(beam, lengths, rules.lengths)
            selector, slots = BeamSelector(beam.size), beam.num_finished
            return cls(selector, rules, penalties, n_best, beam.stop, first, slots)
        longest = max(rules.limits)
        sampler = SamplingSelector(settings.sampling, n_best, numbers, longest, lengths.device)
        penalties = Penalties(SAMPLING_PENALTIES, lengths, rules.lengths)
        return cls(sampler, rules, penalties, n_best, "safe", first)

    @property
    def num_slots(self) -> int:
        """Finished hypotheses to keep for each sentence."""
        if self.stop == "size":
            return max(self.num_finished, self.selector.width)
        return self.selector.width if self.stop == "heuristic" else self.n_best

    def candidates(self, logits: Tensor, hypotheses: Hypotheses) -> Candidates:
        """Candidates (B, C) from logits (B, K, V), which may be overwritten."""
        token_rules = self.rules.token_rules(hypotheses)
        if token_rules is not None and not is_on_cpu(logits):
            candidates = self.selector.fused(logits, hypotheses, token_rules)
            if candidates is not None:
                return candidates
        return self.selector(self.rules.log_probs(logits, hypotheses), hypotheses)

    def done_sentences(self, finished: NBest, hypotheses: Hypotheses) -> Tensor:
        """Whether each sentence (B,) is done.

        Safe: no continuation can score above the last of the n best finished hypotheses.
        """
        if self.stop == "heuristic":
            scores = hypotheses.log_probs * self.penalties.factor(hypotheses.length)  # (B, K)
            return finished.scores[:, -1] >= scores.amax(-1)  # (B,)
        bound = self.penalties.bound(hypotheses)  # (B,)
        if self.stop == "limit":
            return bound == NEG_INF
        safe = finished.scores[:, self.n_best - 1] >= bound  # (B,)
        return safe if self.stop == "safe" else safe | (finished.scores[:, -1] > NEG_INF)


@dataclass(frozen=True)
class SearchState(Generic[StateT]):
    """The state of the search of a batch of B sentences; immutable."""

    state: StateT  # of the decoder
    parents: Tensor | None  # (B, K) the hypothesis of `state` that each one extends; None: the same
    hypotheses: Hypotheses  # (B, K)
    finished: NBest  # (B, N)
    is_done: Tensor | None = None  # (B,) sentences whose results are final; None: no sentence's are

    @classmethod
    def start(cls, state: StateT, config: SearchConfig) -> "SearchState[StateT]":
        """Before the first step; `state` has one hypothesis for each sentence: (B, 1)."""
        sentences, device = len(config.rules.limits), config.penalties.lengths.device
        width = config.selector.initial_width
        hypotheses = Hypotheses.start(sentences, width, device, config.first)
        parents = torch.zeros_like(hypotheses.tokens[..., 0]) if width > 1 else None
        return cls(state, parents, hypotheses, empty_n_best(sentences, config.num_slots, device))

    def select_sentences(self, sentences: Tensor) -> "SearchState[StateT]":
        """The state of `sentences` (B',) only."""
        return SearchState(
            self.state.select_sentences(sentences),
            None if self.parents is None else self.parents[sentences],
            self.hypotheses.select_sentences(sentences),
            select_n_best(self.finished, sentences),
            None if self.is_done is None else self.is_done[sentences],
        )

    def done_list(self) -> list[bool]:
        """Whether each sentence is done; reading it waits for the device."""
        assert self.is_done is not None  # every step sets it
        done: list[bool] = self.is_done.tolist()
        return done


class StepResult(NamedTuple, Generic[StateT]):
    """The state after a step, and the candidates that it was chosen from."""

    search_state: SearchState[StateT]
    candidates: Candidates  # (B, C)


def advance(
    decoder: Decoder[StateT],
    search_state: SearchState[StateT],
    config: SearchConfig,
    hook: AttentionHook | None,
) -> StepResult[StateT]:
    """Extend each hypothesis by one token and set aside those that end."""
    state, hypotheses = search_state.state, search_state.hypotheses
    if search_state.parents is not None:
        state = state.reorder(search_state.parents)
    attention = MeanAttention(hook) if config.penalties.beta else None
    logits, state = decoder.step(hypotheses.tokens[..., -1], state, hook=attention or hook)
    if attention is not None:
        hypotheses = hypotheses.add_coverage(attention.collect())
    candidates = config.candidates(logits, hypotheses)  # (B, C)
    search_state = replace(search_state, state=state, hypotheses=hypotheses)
    fused = not is_on_cpu(logits) and hypotheses.coverage is None
    if fused and use_beam_update(candidates.log_probs, config.num_slots):
        return StepResult(_update_beam_fused(candidates, search_state, config), candidates)
    return StepResult(_update_beam(candidates, search_state, config), candidates)


def truncate(
    search_state: SearchState[StateT],
    truncated: Tensor,
    config: SearchConfig,
    was_done: Tensor | None,
) -> SearchState[StateT]:
    """End `truncated` (B,) sentences: unfinished hypotheses fill their empty slots, or rank among
    those that ended. `was_done` (B,) says which sentences were done before this step.
    """
    hypotheses, is_done, rules = search_state.hypotheses, search_state.is_done, config.rules
    ended_earlier = was_done if rules.at_limit == "ranked" else is_done
    ended_now = truncated if ended_earlier is None else truncated & ~ended_earlier
    scores = config.penalties.unfinished_scores(hypotheses, rules.forced_tokens)  # (B, K)
    scores = scores.masked_fill(~ended_now[:, None], NEG_INF)
    unfinished = torch.zeros_like(scores, dtype=torch.bool)
    cut = NBest(scores, hypotheses.log_probs, hypotheses.tokens, unfinished)
    if rules.at_limit == "behind":
        finished = fill_slots(search_state.finished, cut)
    else:
        finished = add_finished(search_state.finished, cut, ~ended_now)
    return replace(search_state, finished=finished, is_done=_either(is_done, truncated))


def _update_beam(
    candidates: Candidates, search_state: SearchState[StateT], config: SearchConfig
) -> SearchState[StateT]:
    """The state after `candidates` (B, C) for its hypotheses (B, K)."""
    continuing = continuing_candidates(candidates, config.selector.width)
    ending = ending_candidates(candidates, config.selector.width)
    is_done, finished = search_state.is_done, search_state.finished
    if is_done is not None:
        log_probs = ending.log_probs.masked_fill(is_done[:, None], NEG_INF)
        ending = ending._replace(log_probs=log_probs)
    # On a CPU the check is cheap and mostly saves the work; != so that NaN is reported later.
    if not is_on_cpu(ending.log_probs) or bool((ending.log_probs != NEG_INF).any()):
        ended = _ended_hypotheses(ending, search_state.hypotheses, config.penalties)
        finished = add_finished(finished, ended, is_done)
    hypotheses = search_state.hypotheses.extend(continuing)
    is_done = _either(is_done, config.done_sentences(finished, hypotheses))
    return SearchState(search_state.state, continuing.parents, hypotheses, finished, is_done)


def _update_beam_fused(
    candidates: Candidates, search_state: SearchState[StateT], config: SearchConfig
) -> SearchState[StateT]:
    """`_update_beam` by a kernel, without coverage."""
    hypotheses, penalties = search_state.hypotheses, config.penalties
    factor, width = penalties.factor(hypotheses.length + 1), config.selector.width
    update = update_beam(
        candidates,
        (hypotheses.tokens, hypotheses.sentence_index, penalties.min_factors),
        search_state.finished,
        search_state.is_done,
        BeamUpdateConfig(width, config.n_best, config.stop, factor, EOS, PAD),
    )
    return SearchState(
        search_state.state,
        update.parents,
        Hypotheses(hypotheses.sentence_index, update.tokens, update.log_probs),
        update.finished,
        _either(search_state.is_done, update.done),
    )


def _ended_hypotheses(ending: Candidates, hypotheses: Hypotheses, penalties: Penalties) -> NBest:
    """The hypotheses (B, C) that `ending` candidates complete; impossible ones score -inf."""
    tokens, coverage = hypotheses.tokens, penalties.coverage(hypotheses)
    if ending.parents is not None:
        tokens = gather_parents(tokens, ending.parents)  # (B, C, 1 + t)
        if coverage is not None:
            coverage = gather_parents(coverage, ending.parents)  # (B, C)
    scores = penalties.score(ending.log_probs, hypotheses.length + 1, coverage)  # (B, C)
    return NBest(scores, ending.log_probs, tokens, torch.ones_like(scores, dtype=torch.bool))


def _either(is_done: Tensor | None, done: Tensor) -> Tensor:
    return done if is_done is None else is_done | done
