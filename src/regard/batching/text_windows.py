"""Windows of a running text -> batches whose rows continue those of the batch before."""

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from regard.batching.collate import PositionedBatch
from regard.batching.sampler import WHOLE_STREAM, Shard, StreamPosition
from regard.errors import CorpusError
from regard.kernels.cross_entropy import IGNORE_INDEX
from regard.text.special_tokens import EOS
from regard.types import Batch, Padded

TokenIds = NDArray[np.integer[Any]]

HALVED_SHARE = 0.05  # share of the windows whose lengths vary around half of the given one
LENGTH_DEVIATION = 5.0  # tokens; both as in Merity et al. 2018
LENGTH_MULTIPLE = 5  # lengths are rounded, so that there are few shapes to capture as CUDA graphs


def window_lengths(total: int, length: int, *, vary: bool, seed: int, epoch: int) -> list[int]:
    """Lengths of consecutive windows over `total` tokens; the last may reach beyond them.

    If they `vary`, they are normally distributed around `length`, or half of it now and then
    (Merity et al. 2018, section 5), so that a window does not begin at the same token each epoch.
    """
    if not vary:
        return [length] * -(-total // length)
    rng, lengths, done = np.random.default_rng([seed, epoch]), list[int](), 0
    while done < total:
        middle = length / 2 if rng.random() < HALVED_SHARE else length
        drawn = round(rng.normal(middle, LENGTH_DEVIATION) / LENGTH_MULTIPLE) * LENGTH_MULTIPLE
        lengths.append(max(LENGTH_MULTIPLE, drawn))
        done += lengths[-1]
    return lengths


def continued_windows(
    ids: TokenIds,
    start: StreamPosition,
    shard: Shard = WHOLE_STREAM,
    *,
    rows: int,
    length: int,
    vary: bool,
    seed: int,
    lanes: int = 1,
) -> Iterator[PositionedBatch]:
    """An endless stream of batches from `start` on, determined by the seed; with a `shard`, only
    its batches.

    The text is cut into `lanes` times `rows` stretches that are read side by side: a window of all
    of them makes `lanes` batches of `rows`. At its end, a stretch continues with the text of the
    next one, and the last with that of the first, so that rows always continue. An epoch ends with
    the window that completes another pass over each stretch.
    """
    all_rows = rows * lanes
    stretch = len(ids) // all_rows
    if stretch < 2:
        raise CorpusError(
            f"a text of {len(ids):,} tokens is too short to be read in {all_rows} rows; give more "
            "text, or set fewer rows"
        )
    windows = _positioned_windows(stretch, start, length=length, vary=vary, seed=seed)
    batches = ((window, lane) for window in windows for lane in range(lanes))
    for window, lane in shard.take(batches):
        firsts = np.arange(lane * rows, (lane + 1) * rows)[:, None] * stretch  # (B, 1)
        columns = np.arange(window.first, window.first + window.length + 1)
        places = (firsts + columns) % (stretch * all_rows)  # (B, T + 1)
        behind = window.next_position if lane + 1 == lanes else window.position
        yield PositionedBatch(window_batch(ids[places]), behind)


class _PositionedWindow(NamedTuple):
    """A window of all stretches."""

    first: int  # where it begins, counted from the beginnings of the stretches
    length: int
    position: StreamPosition
    next_position: StreamPosition


def _positioned_windows(
    stretch: int, start: StreamPosition, *, length: int, vary: bool, seed: int
) -> Iterator[_PositionedWindow]:
    """The windows of stretches of `stretch` tokens, from `start` on."""
    offset = 0
    for epoch in itertools.count():
        left = stretch * (epoch + 1) - offset
        lengths = window_lengths(left, length, vary=vary, seed=seed, epoch=epoch)
        for number, count in enumerate(lengths):
            position = StreamPosition(epoch, number)
            if position >= start:
                last = number + 1 == len(lengths)
                behind = StreamPosition(epoch + 1, 0) if last else StreamPosition(epoch, number + 1)
                yield _PositionedWindow(offset, count, position, behind)
            offset += count


def whole_text_windows(
    ids: TokenIds, *, rows: int, length: int, overlap: int
) -> Iterator[Batch[Padded]]:
    """Windows in which each token of a text is a label once, to be read from an empty memory.

    The text, after an EOS, is read in `rows` rows side by side; all but the first begin with the
    last `overlap` tokens of the row before. The labels of these, and of filler positions, are
    IGNORE_INDEX.
    """
    rows = max(1, min(rows, len(ids) // max(1, overlap)))
    stretch = max(0, -(-(len(ids) - overlap) // rows))
    text = np.concatenate([[EOS], ids]).astype(np.int64)  # text[n] stands before label n
    columns = np.arange(overlap + stretch)
    places = np.arange(rows)[:, None] * stretch + columns  # (B, overlap + stretch)
    counted = (places < len(ids)) & ((columns >= overlap) | (np.arange(rows)[:, None] == 0))
    given = text[places.clip(max=len(ids))]
    labels = np.where(counted, text[places.clip(max=len(ids) - 1) + 1], IGNORE_INDEX)
    for first in range(0, len(columns), length):
        part = slice(first, first + length)
        yield _padded_batch(given[:, part], labels[:, part])


def window_batch(windows: TokenIds) -> Batch[Padded]:
    """A batch of windows (B, T + 1), in which each token is predicted from those before it."""
    windows = windows.astype(np.int64)
    return _padded_batch(windows[:, :-1], windows[:, 1:])


def _padded_batch(given: TokenIds, labels: TokenIds) -> Batch[Padded]:
    ids = torch.from_numpy(np.ascontiguousarray(given))  # (B, T)
    tokens = Padded(ids, torch.ones_like(ids, dtype=torch.bool))
    prompt = Padded(ids[:, :0], tokens.mask[:, :0])  # the memory is handed in
    return Batch(prompt, tokens, None, torch.from_numpy(np.ascontiguousarray(labels)).flatten())
