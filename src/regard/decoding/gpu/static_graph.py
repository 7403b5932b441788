"""The end of a search: one step, recorded once and replayed until all sentences are done.

Few sentences of a large batch have by far the longest answers. What is left of it then is small,
and a GPU has done with each kernel of a step before its host has asked for the next. Here all steps
are the same work, so that one record (`kernels.graphs`) does for as many as are left: the state has
all its room from the beginning (`Decoder.steady`), how long the hypotheses are is read from a clock
on the device, and what they say is noted in a book. A hypothesis holds no text, but the number of
its entry there; from the last one its text is read backwards.
"""

from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Generic, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.decoding.gpu.async_copy import LaggedReader, async_to_device, async_to_host, host_lag
from regard.decoding.search.hypotheses import Hypotheses
from regard.decoding.search.n_best import NBest
from regard.decoding.search.step import SearchConfig, SearchState, advance, finalize
from regard.kernels.cuda_graphs import CaptureError, CudaGraphs
from regard.models.contracts import Decoder, StateT, gather_parents
from regard.text.special_tokens import PAD

MAX_HYPOTHESES = 640
"""Hypotheses from which on what is left of a search is small."""
MAX_STEPS = 128
"""The most steps that there is room for."""


def fits_static_graph(hypotheses: Hypotheses, config: SearchConfig) -> bool:
    """Whether `finish` is for a search that has come to this grid and is short."""
    if hypotheses.log_probs.numel() > MAX_HYPOTHESES:
        return False
    is_unconstrained = (
        hypotheses.coverage is None and config.rules.token_rules(hypotheses) is not None
    )
    return (
        is_unconstrained and hypotheses.log_probs.shape[1] == config.selector.width
    )  # which it has from there on


def fits_static_steps(steps_left: Sequence[int]) -> bool:
    """Whether there is room for the steps that each sentence has `left`."""
    return max(steps_left) <= MAX_STEPS


def replay_to_end(
    decoder: Decoder[StateT],
    search_state: SearchState[StateT],
    config: SearchConfig,
    steps_left: Sequence[int],
    capturer: CudaGraphs,
) -> NBest | None:
    """All answers (B, N), on the host; None: the search has to go on as it did.

    Each sentence has so many steps `left` at the most.
    """
    try:
        with capturer.side_stream():
            search = _StaticSearch.of(decoder, search_state, config, steps_left)
            return None if search is None else search.run(capturer, max(steps_left))
    except (CaptureError, torch.OutOfMemoryError):  # the stand is as it was
        return None


class _TokenHistory(NamedTuple):
    """What was said, by entries: of each sentence those from before, then K for each step."""

    initial: Tensor  # (B, E, 1 + t) whole texts, BOS first
    generated: Tensor  # (B, steps, K, 2) the entry that each one continues, and a token

    def sequences(self, entries: Tensor) -> Tensor:
        """The whole texts (B, N, 1 + t + steps) that end with some `entries` (B, N)."""
        tokens_so_far, (_, steps, width, _) = [], self.generated.shape
        for step in reversed(range(steps)):
            cell = entries - self.initial.shape[1] - step * width  # (B, N); below 0: it is older
            parent, token = gather_parents(self.generated[:, step], cell.clamp_min(0)).unbind(
                -1
            )  # (B, N) each
            tokens_so_far.append(torch.where(cell < 0, PAD, token))
            entries = torch.where(cell < 0, entries, parent)
        return torch.cat(
            [gather_parents(self.initial, entries), torch.stack(tokens_so_far[::-1], -1)], -1
        )

    def write(self, step_counter: Tensor, cells: Tensor) -> Tensor:
        """Enter what each of some `cells` (B, K, 2) continues and says; their numbers (K,)."""
        self.generated.index_copy_(1, step_counter[None], cells[:, None])
        cell = torch.arange(cells.shape[1], device=cells.device)  # (K,)
        return self.initial.shape[1] + step_counter * cells.shape[1] + cell


class _StaticSearch(Generic[StateT]):
    """What is left of a search; each step leaves its tensors where it found them."""

    def __init__(
        self,
        decoder: Decoder[StateT],
        search_state: SearchState[StateT],
        config: SearchConfig,
        history: _TokenHistory,
        steps_left: Tensor,
        step_counter: Tensor,
    ) -> None:
        """`left` (B,) is how many more tokens each sentence may have."""
        self.decoder, self.search_state, self.config = decoder, search_state, config
        self.history, self.steps_left, self.step_counter = history, steps_left, step_counter

    @classmethod
    def of(
        cls,
        decoder: Decoder[StateT],
        search_state: SearchState[StateT],
        config: SearchConfig,
        steps_left: Sequence[int],
    ) -> "_StaticSearch[StateT] | None":
        """What is left behind a stand, which stays as it is; None: its state has no such form."""
        hypotheses, finished, where = (
            search_state.hypotheses,
            search_state.finished,
            search_state.hypotheses.tokens.device,
        )
        steps = max(steps_left)
        step_counter = torch.zeros((), dtype=torch.long, device=where)
        (sentences, width), length = hypotheses.log_probs.shape, hypotheses.length
        state, parents = search_state.state, search_state.parents
        # Either way a copy: what steps leave in it must not be in the stand's.
        if parents is None:
            state = state.select_sentences(torch.arange(sentences, device=where))
        else:  # so that it is as wide as all that follow
            state = state.reorder(parents)
            parents = torch.arange(width, device=where).repeat(sentences, 1)  # (B, K)
        static_decoder_state = decoder.to_static(state, steps, step_counter)
        if static_decoder_state is None:
            return None
        shorter = length + 1 - finished.tokens.shape[-1]
        known = F.pad(finished.tokens, (0, shorter), value=PAD)  # (B, N, 1 + t)
        initial = torch.cat([hypotheses.tokens, known], 1)  # (B, K + N, 1 + t)
        history = _TokenHistory(initial, initial.new_zeros(sentences, steps, width, 2))
        entries = torch.arange(initial.shape[1], device=where).expand(sentences, -1)  # (B, K + N)
        last = torch.stack([entries, initial[..., -1]], -1)  # (B, K + N, 2)
        # A hypothesis seems to be one token long, whatever its length.
        config = replace(
            config,
            rules=config.rules.without_prefixes(),
            penalties=config.penalties.to_static(
                length - 1, steps, step_counter, hypotheses.log_probs.dtype
            ),
        )
        search_state = replace(
            search_state,
            state=static_decoder_state,
            parents=parents,
            hypotheses=replace(hypotheses, tokens=last[:, :width]),
            finished=finished._replace(tokens=last[:, width:]),
        )
        return cls(
            decoder,
            _cloned(search_state),
            config,
            history,
            async_to_device(steps_left, where),
            step_counter,
        )

    def run(self, capturer: CudaGraphs, max_steps: int) -> NBest:
        """All answers (B, N) after `most` steps, or as soon as nobody looks for others."""
        reports, done = LaggedReader(host_lag(self.step_counter.device)), 0
        for done in self._steps(capturer):
            assert self.search_state.is_done is not None  # as a step leaves it
            is_done = reports.poll(self.search_state.is_done)
            if done == max_steps or (is_done is not None and bool(is_done.all())):
                break
        found, history = self.search_state.finished, self.history
        pending_copy = async_to_host(*found, history.initial, history.generated[:, :done])
        scores, log_probs, last, ended, *history_parts = pending_copy.wait()
        return NBest(
            scores, log_probs, _TokenHistory(*history_parts).sequences(last[..., 0]), ended
        )

    def _steps(self, capturer: CudaGraphs) -> Iterator[int]:
        """Do a step, record the next, and replay that as often as is asked for; count them."""
        self._step()
        yield 1
        replay = capturer.capture(self._step)
        done = 1
        while True:
            replay()
            done += 1
            yield done

    def _step(self) -> None:
        result = advance(self.decoder, self.search_state, self.config, None)
        tokens_so_far = (
            result.hypotheses.tokens
        )  # (B, K, 3): the entry before, its token, and the new one
        entries = self.history.write(self.step_counter, tokens_so_far[..., ::2])  # (K,)
        tokens = torch.stack(
            [entries.expand(tokens_so_far.shape[:2]), tokens_so_far[..., 2]], -1
        )  # (B, K, 2)
        hypotheses = Hypotheses(result.hypotheses.rows, tokens, result.hypotheses.log_probs)
        self.step_counter.add_(1)
        search_state = finalize(
            replace(result, hypotheses=hypotheses),
            self.config,
            self.steps_left == self.step_counter,
        )
        for place, new in zip(_tensors(self.search_state), _tensors(search_state), strict=True):
            if place is not new:
                place.copy_(new)


def _tensors(value: object) -> Iterator[Tensor]:
    """All that a value made of tuples and dataclasses holds, in order."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, tuple):
        for part in value:
            yield from _tensors(part)
    elif is_dataclass(value):
        for field in fields(value):
            yield from _tensors(getattr(value, field.name))


def _cloned(search_state: SearchState[StateT]) -> SearchState[StateT]:
    """The same, with own memory for all that a step changes beside its state.

    Free places for answers are in float32: here they are as precise as what comes into them.
    """
    hypotheses, is_done, (scores, log_probs, tokens, ended) = (
        search_state.hypotheses,
        search_state.is_done,
        search_state.finished,
    )
    scores, log_probs = (x.to(hypotheses.log_probs.dtype, copy=True) for x in (scores, log_probs))
    return SearchState(
        search_state.state,
        search_state.parents,
        replace(
            hypotheses, tokens=hypotheses.tokens.clone(), log_probs=hypotheses.log_probs.clone()
        ),
        NBest(scores, log_probs, tokens.clone(), ended.clone()),
        torch.zeros_like(hypotheses.rows, dtype=torch.bool) if is_done is None else is_done.clone(),
    )
