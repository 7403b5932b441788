"""A step of a search: all that the device does in it, and nothing that the host would wait for."""

from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol

import torch
from torch import Tensor

from regard.decoding.constraints.rules import Rules
from regard.decoding.gpu.async_copy import is_on_cpu
from regard.decoding.search.hypotheses import Candidates, Hypotheses
from regard.decoding.search.n_best import NBest
from regard.decoding.search.penalties import MeanAttention, Penalties
from regard.decoding.settings import Stop
from regard.kernels.beam_update import BeamUpdateConfig, update_beam
from regard.kernels.dispatch import use_beam_update
from regard.kernels.topk_logits import TokenRules
from regard.models.contracts import Decoder, StateT, gather_parents
from regard.text.special_tokens import EOS, PAD
from regard.types import AttentionHook


class CandidateSelector(Protocol):
    """The part in which searches differ: how the hypotheses go on."""

    @property
    def start(self) -> int:
        """Cells for each sentence before the first step."""
        ...

    @property
    def width(self) -> int:
        """The most cells for each sentence after it."""
        ...

    def __call__(self, log_probs: Tensor, hypotheses: Hypotheses) -> Candidates:
        """Ways to go on, given the log-probabilities (B, K, V) of each next token.

        It may write into them. An EOS counts if it is among the first `width`; there are enough
        others behind it to fill the grid, or none that are possible.
        """
        ...

    def fused(
        self, logits: Tensor, hypotheses: Hypotheses, token_rules: TokenRules
    ) -> Candidates | None:
        """The same straight from `logits`; None: there is no kernel for it."""
        ...


@dataclass(frozen=True)
class SearchConfig:
    """How a batch is to be searched."""

    selector: CandidateSelector
    rules: Rules
    penalties: Penalties
    n_best: int
    stop: Stop

    @property
    def places(self) -> int:
        """Answers to each sentence that are worth remembering."""
        return self.selector.width if self.stop == "size" else self.n_best

    def candidates(self, logits: Tensor, hypotheses: Hypotheses) -> Candidates:
        """Ways (B, C) to go on, given logits (B, K, V), into which it may write."""
        token_rules = self.rules.token_rules(hypotheses)
        best = None if token_rules is None else self.selector.fused(logits, hypotheses, token_rules)
        return (
            self.selector(self.rules.log_probs(logits, hypotheses), hypotheses)
            if best is None
            else best
        )

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """What of it belongs to the sentences rather than to how they are searched for."""
        return self.rules.prefixes, self.penalties.lengths, self.penalties.min_factors

    def is_settled(self, finished: NBest, hypotheses: Hypotheses) -> Tensor:
        """Whether each sentence (B,) is done.

        Safe: nothing that grows out of the grid can score above the last of the n best answers, so
        none of these will ever be replaced: going on would not change the result. A grid whose
        cells are all empty is the case of a bound of -inf.
        """
        bound = self.penalties.bound(hypotheses)  # (B,)
        if self.stop == "limit":
            return bound == float("-inf")
        safe = finished.scores[:, self.n_best - 1] >= bound  # (B,)
        return safe if self.stop == "safe" else safe | (finished.scores[:, -1] > float("-inf"))


@dataclass(frozen=True)
class SearchState(Generic[StateT]):
    """Where the search for the B sentences of a batch stands; a value."""

    state: StateT
    parents: Tensor | None  # (B, K) which cell of `state` each one of the grid continues; None: k
    hypotheses: Hypotheses  # (B, K)
    finished: NBest  # (B, N)
    is_done: Tensor | None = None  # (B,) who is done: what they say counts no more; None: nobody is

    @classmethod
    def start(cls, state: StateT, config: SearchConfig) -> "SearchState[StateT]":
        """Before the first step, with the `state` of a grid (B, 1)."""
        sentences, where = len(config.rules.limits), config.penalties.lengths.device
        hypotheses = Hypotheses.start(sentences, config.selector.start, where)
        parents = torch.zeros_like(hypotheses.tokens[..., 0]) if config.selector.start > 1 else None
        return cls(state, parents, hypotheses, NBest.empty(sentences, config.places, where))

    def select_sentences(self, sentences: Tensor) -> "SearchState[StateT]":
        """That of `sentences` (B',) alone."""
        return SearchState(
            self.state.select_sentences(sentences),
            None if self.parents is None else self.parents[sentences],
            self.hypotheses.select_sentences(sentences),
            self.finished.select_sentences(sentences),
            None if self.is_done is None else self.is_done[sentences],
        )


class BeamUpdate(NamedTuple):
    """What becomes of the hypotheses and answers of each sentence."""

    hypotheses: Hypotheses  # (B, K')
    parents: Tensor | None  # (B, K') the cell that each one of it continues; None: cell k
    finished: NBest  # (B, N)
    done: Tensor  # (B,) whose answers are settled


@dataclass(frozen=True)
class StepResult(Generic[StateT]):
    """What a step has made of a stand, before any sentence is cut."""

    state: StateT
    candidates: Candidates  # (B, C) all that were weighed, the best first
    is_done: Tensor | None  # (B,) who was done before
    hypotheses: Hypotheses  # this and all below as in `Outcome`
    parents: Tensor | None
    finished: NBest
    done: Tensor


def advance(
    decoder: Decoder[StateT],
    search_state: SearchState[StateT],
    config: SearchConfig,
    hook: AttentionHook | None,
) -> StepResult[StateT]:
    """One more token of each hypothesis, and what ends with it set aside."""
    state, hypotheses = search_state.state, search_state.hypotheses
    if search_state.parents is not None:
        state = state.reorder(search_state.parents)
    attention = MeanAttention(hook) if config.penalties.beta else None
    logits, state = decoder.step(hypotheses.tokens[..., -1], state, hook=attention or hook)
    if attention is not None:
        hypotheses = hypotheses.add_coverage(attention.collect())
    candidates = config.candidates(logits, hypotheses)  # (B, C)
    fused = hypotheses.coverage is None and use_beam_update(candidates.log_probs, config.places)
    follow = _update_beam_fused if fused else _update_beam
    return StepResult(
        state,
        candidates,
        search_state.is_done,
        *follow(candidates, hypotheses, search_state, config),
    )


def finalize(
    result: StepResult[StateT], config: SearchConfig, truncated: Tensor | None
) -> SearchState[StateT]:
    """The stand after a move, in which sentences to `cut` (B,) end with whatever they have."""
    hypotheses, finished, done, is_done = (
        result.hypotheses,
        result.finished,
        result.done,
        result.is_done,
    )
    if truncated is not None:
        truncated = truncated if is_done is None else truncated & ~is_done
        finished, done = (
            finished.fill(_truncated_hypotheses(hypotheses, truncated, config.penalties)),
            done | truncated,
        )
    is_done = done if is_done is None else is_done | done
    return SearchState(result.state, result.parents, hypotheses, finished, is_done)


def ending(candidates: Candidates, is_done: Tensor | None, config: SearchConfig) -> Candidates:
    """Those of `ways` (B, C) that end and count: the others are at -inf."""
    return _mask_done(candidates.ending(config.selector.width), is_done)


def _update_beam(
    candidates: Candidates,
    hypotheses: Hypotheses,
    before: SearchState[StateT],
    config: SearchConfig,
) -> BeamUpdate:
    """What `ways` (B, C) to go on with a grid (B, K) lead to."""
    continuing = candidates.continuing(config.selector.width)
    ends = ending(candidates, before.is_done, config)
    finished = _add_finished(before.finished, ends, hypotheses, config.penalties)
    hypotheses = hypotheses.extend(continuing)
    return BeamUpdate(
        hypotheses, continuing.parents, finished, config.is_settled(finished, hypotheses)
    )


def _update_beam_fused(
    candidates: Candidates,
    hypotheses: Hypotheses,
    before: SearchState[StateT],
    config: SearchConfig,
) -> BeamUpdate:
    """`_follow` by a kernel, which counts no attention."""
    factor = config.penalties.factor(hypotheses.length + 1)
    settings = BeamUpdateConfig(config.selector.width, config.n_best, config.stop, factor, EOS, PAD)
    live = hypotheses.tokens, hypotheses.rows, config.penalties.min_factors
    tokens, log_probs, parents, finished, done = update_beam(
        candidates, live, before.finished, before.is_done, settings
    )
    extended = Hypotheses(hypotheses.rows, tokens, log_probs)
    return BeamUpdate(extended, parents, NBest(*finished), done)


def _mask_done(candidates: Candidates, is_done: Tensor | None) -> Candidates:
    """`ways` (B, C) without those of sentences that are `over` (B,)."""
    if is_done is None:
        return candidates
    return candidates._replace(
        log_probs=candidates.log_probs.masked_fill(is_done[:, None], float("-inf"))
    )


def _add_finished(
    finished: NBest, ending: Candidates, hypotheses: Hypotheses, penalties: Penalties
) -> NBest:
    """`finished`, and what ends now where it is better.

    On a CPU it costs little to ask whether anything does, and saves the most part of a step's work
    beside the model.
    """
    ends = ending.log_probs != float("-inf")  # (B, C); what is not a number is to be reported
    if is_on_cpu(ends) and not bool(ends.any()):
        return finished
    return finished.add(_completed_hypotheses(ending, hypotheses, penalties))


def _completed_hypotheses(
    candidates: Candidates, hypotheses: Hypotheses, penalties: Penalties
) -> NBest:
    """The hypotheses that `ways` (B, C) make: all that are possible end."""
    tokens, coverage = hypotheses.tokens, penalties.coverage(hypotheses)
    if candidates.parents is not None:
        tokens = gather_parents(tokens, candidates.parents)  # (B, C, 1 + t)
        coverage = (
            None if coverage is None else gather_parents(coverage, candidates.parents)
        )  # (B, C)
    scores = penalties.score(candidates.log_probs, hypotheses.length + 1, coverage)  # (B, C)
    return NBest(scores, candidates.log_probs, tokens, torch.ones_like(scores, dtype=torch.bool))


def _truncated_hypotheses(hypotheses: Hypotheses, truncated: Tensor, penalties: Penalties) -> NBest:
    """The hypotheses of the sentences to `cut` (B,) as they are, without EOS; none of others."""
    scores = penalties.unfinished_scores(hypotheses).masked_fill(
        ~truncated[:, None], float("-inf")
    )  # (B, K)
    return NBest(
        scores, hypotheses.log_probs, hypotheses.tokens, torch.zeros_like(scores, dtype=torch.bool)
    )
