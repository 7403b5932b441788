"""Lists of ids -> rectangles."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from regard.text.ragged import Ids, Ragged, flatten
from regard.text.special_tokens import BOS, EOS, PAD
from regard.types import Batch, Padded

TokenRows = Ragged | Sequence[Ids]


def pad(
    rows: TokenRows, *, first: int | None = None, last: int | None = None, least: int = 1
) -> Padded:
    """Rows of ids side by side, each with `first` before and `last` behind it where given.

    There are as many columns as the longest takes, and no fewer than `least`.
    """
    given, counts = rows if isinstance(rows, Ragged) else flatten(rows)
    start = int(first is not None)
    lengths = counts + start + (last is not None)  # (B,)
    places = np.arange(int(lengths.max(initial=least)))  # (S,)
    ids = np.full((len(lengths), len(places)), PAD, np.int64)  # (B, S)
    ids[(places >= start) & (places < counts[:, None] + start)] = given
    if first is not None:
        ids[:, 0] = first
    if last is not None:
        ids[np.arange(len(lengths)), lengths - 1] = last
    return Padded(torch.from_numpy(ids), torch.from_numpy(places < lengths[:, None]))


def pad_source(rows: TokenRows, *, least: int = 1) -> Padded:
    """What an encoder takes: EOS behind each row, so that no row is empty."""
    return pad(rows, last=EOS, least=least)


def collate(sources: TokenRows, targets: TokenRows) -> Batch:
    """A batch to learn from."""
    target = pad(targets, first=BOS)  # (B, T)
    shifted = pad(targets, last=EOS)  # (B, T), the same shape: one place to the left
    source, places = pad_source(sources), _real_token_index(target)  # (B, S), (M,)
    # not by [places], which torch shares out among threads: for so few it is all waiting
    labels = shifted.ids.flatten().index_select(0, places)  # (M,)
    return Batch(source, target, places, labels, _real_token_index(source))


def _real_token_index(padded: Padded) -> Tensor:
    """Where the real tokens of a rectangle lie when it is flattened."""
    return padded.mask.flatten().nonzero().squeeze(1)
