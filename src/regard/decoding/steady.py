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

from regard.decoding.finished import Finished
from regard.decoding.grid import Grid
from regard.decoding.moves import Plan, Stand, conclude, weigh
from regard.decoding.posting import Reports, lateness, post, send
from regard.kernels.graphs import CaptureError, Recorder
from regard.models.contracts import Decoder, StateT, take
from regard.text.special import PAD

ROWS = 640
"""Hypotheses from which on what is left of a search is small."""
MOST = 128
"""The most steps that there is room for."""


def is_small(grid: Grid, plan: Plan) -> bool:
    """Whether `finish` is for a search that has come to this grid and is short."""
    if grid.log_probs.numel() > ROWS:
        return False
    usual = grid.coverage is None and plan.rules.sayable(grid) is not None
    return usual and grid.log_probs.shape[1] == plan.choose.width  # which it has from there on


def is_short(left: Sequence[int]) -> bool:
    """Whether there is room for the steps that each sentence has `left`."""
    return max(left) <= MOST


def finish(
    decoder: Decoder[StateT],
    stand: Stand[StateT],
    plan: Plan,
    left: Sequence[int],
    recorder: Recorder,
) -> Finished | None:
    """All answers (B, N), on the host; None: the search has to go on as it did.

    Each sentence has so many steps `left` at the most.
    """
    try:
        with recorder.apart():
            search = _Search.of(decoder, stand, plan, left)
            return None if search is None else search.run(recorder, max(left))
    except (CaptureError, torch.OutOfMemoryError):  # the stand is as it was
        return None


class _Book(NamedTuple):
    """What was said, by entries: of each sentence those from before, then K for each step."""

    before: Tensor  # (B, E, 1 + t) whole texts, BOS first
    since: Tensor  # (B, steps, K, 2) the entry that each one continues, and a token

    def texts(self, entries: Tensor) -> Tensor:
        """The whole texts (B, N, 1 + t + steps) that end with some `entries` (B, N)."""
        said, (_, steps, width, _) = [], self.since.shape
        for step in reversed(range(steps)):
            cell = entries - self.before.shape[1] - step * width  # (B, N); below 0: it is older
            parent, token = take(self.since[:, step], cell.clamp_min(0)).unbind(-1)  # (B, N) each
            said.append(torch.where(cell < 0, PAD, token))
            entries = torch.where(cell < 0, entries, parent)
        return torch.cat([take(self.before, entries), torch.stack(said[::-1], -1)], -1)

    def note(self, clock: Tensor, cells: Tensor) -> Tensor:
        """Enter what each of some `cells` (B, K, 2) continues and says; their numbers (K,)."""
        self.since.index_copy_(1, clock[None], cells[:, None])
        cell = torch.arange(cells.shape[1], device=cells.device)  # (K,)
        return self.before.shape[1] + clock * cells.shape[1] + cell


class _Search(Generic[StateT]):
    """What is left of a search; each step leaves its tensors where it found them."""

    def __init__(
        self,
        decoder: Decoder[StateT],
        stand: Stand[StateT],
        plan: Plan,
        book: _Book,
        left: Tensor,
        clock: Tensor,
    ) -> None:
        """`left` (B,) is how many more tokens each sentence may have."""
        self.decoder, self.stand, self.plan = decoder, stand, plan
        self.book, self.left, self.clock = book, left, clock

    @classmethod
    def of(
        cls,
        decoder: Decoder[StateT],
        stand: Stand[StateT],
        plan: Plan,
        left: Sequence[int],
    ) -> "_Search[StateT] | None":
        """What is left behind a stand, which stays as it is; None: its state has no such form."""
        grid, finished, where = stand.grid, stand.finished, stand.grid.tokens.device
        steps = max(left)
        clock = torch.zeros((), dtype=torch.long, device=where)
        (sentences, width), length = grid.log_probs.shape, grid.length
        state, parents = stand.state, stand.parents
        # Either way a copy: what steps leave in it must not be in the stand's.
        if parents is None:
            state = state.keep(torch.arange(sentences, device=where))
        else:  # so that it is as wide as all that follow
            state = state.branch(parents)
            parents = torch.arange(width, device=where).repeat(sentences, 1)  # (B, K)
        steadied = decoder.steady(state, steps, clock)
        if steadied is None:
            return None
        shorter = length + 1 - finished.tokens.shape[-1]
        known = F.pad(finished.tokens, (0, shorter), value=PAD)  # (B, N, 1 + t)
        before = torch.cat([grid.tokens, known], 1)  # (B, K + N, 1 + t)
        book = _Book(before, before.new_zeros(sentences, steps, width, 2))
        entries = torch.arange(before.shape[1], device=where).expand(sentences, -1)  # (B, K + N)
        last = torch.stack([entries, before[..., -1]], -1)  # (B, K + N, 2)
        # A hypothesis seems to be one token long, whatever its length.
        plan = replace(
            plan,
            rules=plan.rules.beyond_prefixes(),
            penalties=plan.penalties.steady(length - 1, steps, clock, grid.log_probs.dtype),
        )
        stand = replace(
            stand,
            state=steadied,
            parents=parents,
            grid=replace(grid, tokens=last[:, :width]),
            finished=finished._replace(tokens=last[:, width:]),
        )
        return cls(decoder, _copied(stand), plan, book, send(left, where), clock)

    def run(self, recorder: Recorder, most: int) -> Finished:
        """All answers (B, N) after `most` steps, or as soon as nobody looks for others."""
        reports, done = Reports(lateness(self.clock.device)), 0
        for done in self._steps(recorder):
            assert self.stand.over is not None  # as a step leaves it
            over = reports.hear(self.stand.over)
            if done == most or (over is not None and bool(over.all())):
                break
        found, book = self.stand.finished, self.book
        letter = post(*found, book.before, book.since[:, :done])
        scores, log_probs, last, ended, *noted = letter.open()
        return Finished(scores, log_probs, _Book(*noted).texts(last[..., 0]), ended)

    def _steps(self, recorder: Recorder) -> Iterator[int]:
        """Do a step, record the next, and replay that as often as is asked for; count them."""
        self._step()
        yield 1
        replay = recorder.capture(self._step)
        done = 1
        while True:
            replay()
            done += 1
            yield done

    def _step(self) -> None:
        move = weigh(self.decoder, self.stand, self.plan, None)
        said = move.grid.tokens  # (B, K, 3): the entry before, its token, and the new one
        entries = self.book.note(self.clock, said[..., ::2])  # (K,)
        tokens = torch.stack([entries.expand(said.shape[:2]), said[..., 2]], -1)  # (B, K, 2)
        grid = Grid(move.grid.rows, tokens, move.grid.log_probs)
        self.clock.add_(1)
        stand = conclude(replace(move, grid=grid), self.plan, self.left == self.clock)
        for place, new in zip(_tensors(self.stand), _tensors(stand), strict=True):
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


def _copied(stand: Stand[StateT]) -> Stand[StateT]:
    """The same, with own memory for all that a step changes beside its state.

    Free places for answers are in float32: here they are as precise as what comes into them.
    """
    grid, over, (scores, log_probs, tokens, ended) = stand.grid, stand.over, stand.finished
    scores, log_probs = (x.to(grid.log_probs.dtype, copy=True) for x in (scores, log_probs))
    return Stand(
        stand.state,
        stand.parents,
        replace(grid, tokens=grid.tokens.clone(), log_probs=grid.log_probs.clone()),
        Finished(scores, log_probs, tokens.clone(), ended.clone()),
        torch.zeros_like(grid.rows, dtype=torch.bool) if over is None else over.clone(),
    )
