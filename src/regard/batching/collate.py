"""Lists of ids -> padded batches, and streams of them."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from regard.batching.sampler import (
    SampledPairs,
    StreamPosition,
    length_sorted_batches,
    within_max_tokens,
)
from regard.corpora.token_store import TokenStore
from regard.text.ragged import Ids, Ragged, flatten
from regard.text.special_tokens import BOS, EOS, PAD
from regard.types import AnyBatch, Batch, Padded

TokenRows = Ragged | Sequence[Ids]


def pad(
    rows: TokenRows, *, first: int | None = None, last: int | None = None, least: int = 1
) -> Padded:
    """Rows of ids, each with `first` before and `last` after it where given, padded at the right to
    the longest, at least to `least` columns.
    """
    given, counts = rows if isinstance(rows, Ragged) else flatten(rows)
    start = int(first is not None)
    lengths = counts + start + (last is not None)  # (B,)
    cols = np.arange(int(lengths.max(initial=least)))  # (S,)
    ids = np.full((len(lengths), len(cols)), PAD, np.int64)  # (B, S)
    ids[(cols >= start) & (cols < counts[:, None] + start)] = given
    if first is not None:
        ids[:, 0] = first
    if last is not None:
        ids[np.arange(len(lengths)), lengths - 1] = last
    return Padded(torch.from_numpy(ids), torch.from_numpy(cols < lengths[:, None]))


def pad_source(rows: TokenRows, *, least: int = 1) -> Padded:
    """The input of an encoder: EOS after each row, so that no row is empty."""
    return pad(rows, last=EOS, least=least)


class DecoderSide(NamedTuple):
    """The input of a decoder for target texts, and the tokens that it should predict."""

    given: Padded  # (B, T) each row begins with BOS
    positions: Tensor  # (M,) indices of the real tokens in the flattened (B * T)
    labels: Tensor  # (M,) the token to predict at each of them; EOS at each row's last


def collate_targets(targets: TokenRows) -> DecoderSide:
    """The decoder's side of a training batch."""
    given = pad(targets, first=BOS)  # (B, T)
    shifted = pad(targets, last=EOS)  # (B, T), the same shape
    positions = _real_token_indices(given)  # (M,)
    # Not by indexing, which torch parallelizes: for so few labels that takes longer.
    return DecoderSide(given, positions, shifted.ids.flatten().index_select(0, positions))


def collate(sources: TokenRows, targets: TokenRows) -> Batch[Padded]:
    """A training batch."""
    source = pad_source(sources)  # (B, S)
    source = replace(source, indices=_real_token_indices(source))
    return Batch(source, *collate_targets(targets))


def _real_token_indices(padded: Padded) -> Tensor:
    """The indices of the real tokens in the flattened rectangle."""
    return padded.mask.flatten().nonzero().squeeze(1)


class PositionedBatch(NamedTuple):
    """A batch, and the position in the stream after it."""

    batch: AnyBatch
    next_position: StreamPosition


def collate_stream(stream: Iterator[SampledPairs]) -> Iterator[PositionedBatch]:
    """The batches of a stream of pairs."""
    for pairs, next_position in stream:
        yield PositionedBatch(collate(*pairs), next_position)


def held_out_batches(
    store: TokenStore, *, budget: int, max_tokens: int | None = None
) -> Iterator[Batch[Padded]]:
    """Every pair of a store once, shortest first, except pairs with more than `max_tokens` on
    either side.
    """
    lengths, chosen = store.lengths(), np.arange(len(store))
    if max_tokens is not None:
        chosen = np.flatnonzero(within_max_tokens(lengths, max_tokens))
    source, target = lengths.source[chosen] + 1, lengths.target[chosen] + 1
    for rows in length_sorted_batches(source, target, budget=budget):
        yield collate(*store.take(chosen[rows]))
