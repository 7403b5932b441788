"""The end of the search of a large batch as one CUDA graph, replayed until all sentences are done.

It begins once `batch_search` has dropped so many done sentences that few hypotheses are left, for
which the host launches kernels more slowly than the GPU runs them. Small batches whose shape recurs
are captured from their first step by `cuda_graph_cache.py` instead.

All steps do the same work on tensors of static shapes. The decoder state has room for all steps
(`Decoder.to_static`), and `step_counter` counts them on the device. Tokens are written to a
history; a hypothesis holds the index of its last entry there, from which its tokens are read
backwards at the end.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Generic, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.decoding.search.hypotheses import Hypotheses
from regard.decoding.search.step import SearchConfig, SearchState, advance, truncate
from regard.kernels.beam_update import NBest
from regard.kernels.cuda_graphs import CaptureError, CudaGraphs
from regard.models.contracts import Decoder, StateT, gather_parents
from regard.text.special_tokens import PAD

MAX_HYPOTHESES = 640  # the most hypotheses of a batch whose last steps are captured
MAX_SLOTS = 640  # the most slots of a sentence, steps times hypotheses, that a static state has


def fits_static_graph(
    hypotheses: Hypotheses, config: SearchConfig, steps_left: Sequence[int]
) -> bool:
    """Whether the rest of a search can be captured: it is small, and its rules are static."""
    width = hypotheses.log_probs.shape[1]
    if hypotheses.log_probs.numel() > MAX_HYPOTHESES or max(steps_left) * width > MAX_SLOTS:
        return False
    is_full = width == config.selector.width  # as in all further steps
    has_static_rules = config.rules.token_rules(hypotheses) is not None
    return is_full and has_static_rules and hypotheses.coverage is None


def replay_to_end(
    decoder: Decoder[StateT],
    search_state: SearchState[StateT],
    config: SearchConfig,
    steps_left: Sequence[int],
    capturer: CudaGraphs,
) -> NBest | None:
    """The finished hypotheses (B, N) of a search, on the CPU, after at most `steps_left` further
    tokens of each sentence; None: continue it step by step.
    """
    try:
        with capturer.side_stream():
            search = _StaticSearch.from_state(decoder, search_state, config, steps_left)
            return None if search is None else search.run(capturer, max(steps_left))
    except (CaptureError, torch.OutOfMemoryError):  # `search_state` is unchanged
        return None


class StepOutputs(NamedTuple):
    """The tensors that the host reads after a captured step."""

    finished: NBest  # (B, N)
    is_done: Tensor  # (B,)

    @classmethod
    def from_state(cls, search_state: SearchState[Any]) -> "StepOutputs":
        assert search_state.is_done is not None  # every step sets it
        return cls(search_state.finished, search_state.is_done)


def run_until_done(steps: Iterator[StepOutputs], max_steps: int) -> tuple[StepOutputs, int]:
    """The outputs of step `max_steps`, or of the first one after which all are done; its number."""
    for number, outputs in enumerate(steps, 1):
        if number == max_steps or bool(outputs.is_done.all()):
            return outputs, number
    raise AssertionError("a search has a next step until it is done")


class _TokenHistory(NamedTuple):
    """The tokens of a batch as entries: K + N hypotheses from before, then K for each step."""

    initial: Tensor  # (B, K + N, 1 + t) whole hypotheses, BOS first
    generated: Tensor  # (B, steps, K, 2) the entry that each one extends, and its token

    def sequences(self, entries: Tensor) -> Tensor:
        """The tokens (B, N, 1 + t + steps) of the hypotheses whose last `entries` (B, N) are."""
        tokens, (_, steps, width, _) = [], self.generated.shape
        for step in reversed(range(steps)):
            index = entries - self.initial.shape[1] - step * width  # (B, N); below 0: it is older
            entry = gather_parents(self.generated[:, step], index.clamp_min(0))  # (B, N, 2)
            tokens.append(torch.where(index < 0, PAD, entry[..., 1]))
            entries = torch.where(index < 0, entries, entry[..., 0])
        return torch.cat([gather_parents(self.initial, entries), torch.stack(tokens[::-1], -1)], -1)

    def write(self, step_counter: Tensor, entries: Tensor) -> Tensor:
        """Write the `entries` (B, K, 2) of a step; their indices (K,)."""
        self.generated.index_copy_(1, step_counter[None], entries[:, None])
        offsets = torch.arange(entries.shape[1], device=entries.device)  # (K,)
        return self.initial.shape[1] + step_counter * entries.shape[1] + offsets


@dataclass
class _StaticSearch(Generic[StateT]):
    """The rest of a search; each step writes its results where it read its inputs."""

    decoder: Decoder[StateT]
    search_state: SearchState[StateT]
    config: SearchConfig
    history: _TokenHistory
    steps_left: Tensor  # (B,) the most further tokens of each sentence
    step_counter: Tensor  # ()

    @classmethod
    def from_state(
        cls,
        decoder: Decoder[StateT],
        search_state: SearchState[StateT],
        config: SearchConfig,
        steps_left: Sequence[int],
    ) -> "_StaticSearch[StateT] | None":
        """The rest of a search, on copies of its tensors; None: the decoder has no static state."""
        hypotheses, finished = search_state.hypotheses, search_state.finished
        device, steps = hypotheses.tokens.device, max(steps_left)
        step_counter = torch.zeros((), dtype=torch.long, device=device)
        (sentences, width), length = hypotheses.log_probs.shape, hypotheses.length
        state, parents = search_state.state, search_state.parents
        if parents is None:  # a copy, as the steps write into it
            state = state.select_sentences(torch.arange(sentences, device=device))
        else:  # reordering copies, and makes the state as wide as in all further steps
            state = state.reorder(parents)
            parents = torch.arange(width, device=device).repeat(sentences, 1)  # (B, K)
        static_state = decoder.to_static(state, steps, step_counter)
        if static_state is None:
            return None
        padding = length + 1 - finished.tokens.shape[-1]
        ended = F.pad(finished.tokens, (0, padding), value=PAD)  # (B, N, 1 + t)
        initial = torch.cat([hypotheses.tokens, ended], 1)  # (B, K + N, 1 + t)
        history = _TokenHistory(initial, initial.new_zeros(sentences, steps, width, 2))
        entries = torch.arange(initial.shape[1], device=device).expand(sentences, -1)  # (B, K + N)
        last = torch.stack([entries, initial[..., -1]], -1)  # (B, K + N, 2)
        # `tokens` holds [history index, last token], so `Hypotheses.length` is 1;
        # `Penalties.to_static` adds the rest of the true length.
        dtype = hypotheses.log_probs.dtype
        penalties = config.penalties.to_static(length - 1, steps, step_counter, dtype)
        config = replace(config, rules=config.rules.without_prefixes(), penalties=penalties)
        is_done = search_state.is_done
        if is_done is None:
            is_done = torch.zeros(sentences, dtype=torch.bool, device=device)
        search_state = SearchState(
            static_state,
            parents,
            replace(
                hypotheses, tokens=last[:, :width].clone(), log_probs=hypotheses.log_probs.clone()
            ),
            NBest(
                finished.scores.to(dtype, copy=True),  # empty slots are float32 in any search
                finished.log_probs.to(dtype, copy=True),
                last[:, width:].clone(),
                finished.ended.clone(),
            ),
            is_done.clone(),
        )
        left = torch.tensor(steps_left, device=device)
        return cls(decoder, search_state, config, history, left, step_counter)

    def run(self, capturer: CudaGraphs, max_steps: int) -> NBest:
        """The finished hypotheses (B, N) after `max_steps` steps, or when all are done."""
        outputs, steps = run_until_done(self._steps(capturer), max_steps)
        history = _TokenHistory(self.history.initial.cpu(), self.history.generated[:, :steps].cpu())
        finished = NBest(*(x.cpu() for x in outputs.finished))
        return finished._replace(tokens=history.sequences(finished.tokens[..., 0]))

    def _steps(self, capturer: CudaGraphs) -> Iterator[StepOutputs]:
        """Run the first step, capture the second, and replay it from there on."""
        outputs = StepOutputs.from_state(self.search_state)  # each step writes them in place
        self._step()
        yield outputs
        replay = capturer.capture(self._step)
        while True:
            replay()
            yield outputs

    def _step(self) -> None:
        search_state = advance(self.decoder, self.search_state, self.config, None).search_state
        hypotheses = search_state.hypotheses  # tokens (B, K, 3): parent entry, its token, new token
        parent_and_new = hypotheses.tokens[..., ::2]  # (B, K, 2)
        entries = self.history.write(self.step_counter, parent_and_new)  # (K,)
        next_tokens = hypotheses.tokens[..., 2]  # (B, K)
        tokens = torch.stack([entries.expand_as(next_tokens), next_tokens], -1)  # (B, K, 2)
        search_state = replace(search_state, hypotheses=replace(hypotheses, tokens=tokens))
        self.step_counter.add_(1)
        truncated, was_done = self.steps_left == self.step_counter, self.search_state.is_done
        search_state = truncate(search_state, truncated, self.config, was_done)
        for old, new in zip(_tensors(self.search_state), _tensors(search_state), strict=True):
            if old is not new:
                old.copy_(new)


def _tensors(value: object) -> Iterator[Tensor]:
    """All tensors of nested tuples and dataclasses, in order."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, tuple):
        for part in value:
            yield from _tensors(part)
    elif is_dataclass(value):
        for field in fields(value):
            yield from _tensors(getattr(value, field.name))
