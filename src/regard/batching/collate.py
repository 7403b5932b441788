"""Lists of ids -> rectangles."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.text.special import BOS, EOS, PAD
from regard.types import Batch, Padded

Ids = Sequence[int] | NDArray[np.int32]


def pad(
    rows: Sequence[Ids], *, first: int | None = None, last: int | None = None, least: int = 1
) -> Padded:
    """Rows of ids side by side, each with `first` before and `last` behind it where given.

    There are as many columns as the longest takes, and no fewer than `least`.
    """
    extra = (first is not None) + (last is not None)
    lengths = np.fromiter((len(row) + extra for row in rows), np.int64, len(rows))  # (B,)
    ids = np.full((len(rows), int(lengths.max(initial=least))), PAD, np.int64)  # (B, S)
    start = int(first is not None)
    if first is not None:
        ids[:, 0] = first
    for cells, row in zip(ids, rows, strict=True):
        cells[start : start + len(row)] = row
    if last is not None:
        ids[np.arange(len(rows)), lengths - 1] = last
    mask = np.arange(ids.shape[1]) < lengths[:, None]  # (B, S)
    return Padded(torch.from_numpy(ids), torch.from_numpy(mask))


def pad_source(rows: Sequence[Ids], *, least: int = 1) -> Padded:
    """What an encoder takes: EOS behind each row, so that no row is empty."""
    return pad(rows, last=EOS, least=least)


def collate(sources: Sequence[Ids], targets: Sequence[Ids]) -> Batch:
    """A batch to learn from."""
    target = pad(targets, first=BOS)  # (B, T)
    answers = pad(targets, last=EOS)  # (B, T), the same shape: one place to the left
    source, places = pad_source(sources), _places(target)  # (B, S), (M,)
    return Batch(source, target, places, answers.ids.flatten()[places], _places(source))


def _places(padded: Padded) -> Tensor:
    """Where the real tokens of a rectangle lie when it is flattened."""
    return padded.mask.flatten().nonzero().squeeze(1)
