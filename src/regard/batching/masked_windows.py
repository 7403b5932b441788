"""Windows of a running text -> batches in which some tokens are masked (Devlin et al. 2019)."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from regard.batching.collate import PositionedBatch
from regard.batching.sampler import WHOLE_STREAM, Shard, StreamPosition
from regard.batching.shuffled_windows import shuffled_firsts
from regard.errors import CorpusError
from regard.kernels.cross_entropy import IGNORE_INDEX
from regard.text.special_tokens import BOS, EOS, SPECIAL_PIECES
from regard.types import Batch, Padded

MASKED_SHARE, RANDOM_SHARE = 0.8, 0.1
"""Shares of the tokens to predict that are replaced by the mask token, and by a random one; the
others stay."""
PAIR_DRAWS = 3  # random numbers of a pair, before those of its tokens
TOKEN_DRAWS = 3  # random numbers of a token
NUM_SPECIAL = len(SPECIAL_PIECES)

TokenIds = NDArray[np.integer[Any]]
Draws = NDArray[np.float64]  # uniform in [0, 1)


class Masking(NamedTuple):
    """How windows are made and masked."""

    mask_id: int  # the mask token
    share: float  # of the tokens of a window that are predicted
    pairs: bool  # whether a window holds two texts, the second of which may follow the first
    spaces: NDArray[np.bool_] | None = None
    """(V, 2) whether a token begins and ends with white space, which separates words; either all
    tokens of a word are masked or none. None: tokens are masked independently."""
    vocabulary: int | None = None
    """The number of tokens from which random ones are drawn; None: those below `mask_id`."""

    @property
    def num_added(self) -> int:
        """The number of special tokens in a window: BOS, and EOS after each part."""
        return 3 if self.pairs else 2


class MaskedTokens(NamedTuple):
    """Windows in which tokens are masked."""

    ids: NDArray[np.int64]  # (B, S)
    positions: NDArray[np.int64]  # (M,) of the tokens to predict in the flattened (B * S)
    labels: NDArray[np.int64]  # (M,) these tokens; IGNORE_INDEX: none, to keep M the same


class TextWindows(NamedTuple):
    """Windows of a text: BOS, the text, EOS; or BOS, a text, EOS, another one, EOS."""

    ids: NDArray[np.int64]  # (B, S)
    segments: NDArray[np.int64] | None = None  # (B, S) 0 in the first text of a pair, 1 after it
    row_labels: NDArray[np.int64] | None = None  # (B,) 0: the second text follows the first; 1: not


def masked_windows(
    ids: TokenIds,
    start: StreamPosition,
    masking: Masking,
    shard: Shard = WHOLE_STREAM,
    *,
    rows: int,
    length: int,
    seed: int,
    fixed_masks: int | None = None,
) -> Iterator[PositionedBatch]:
    """An endless stream of batches of `rows` windows of `length` from `start` on; with a `shard`,
    only its batches.

    Masks are determined by seed, epoch and batch; with `fixed_masks`, by seed and window, each of
    which has that many masks, used in turn in successive epochs.
    """
    count = _window_tokens(len(ids), length, masking)
    size = len_draws(count + masking.num_added)
    stream = shuffled_firsts(len(ids), start, rows=rows, length=count, seed=seed, cycle=fixed_masks)
    for firsts, position, behind in shard.take(stream):
        if fixed_masks is None:
            place = [seed, position.epoch, position.batch + 1]
            draws = np.random.default_rng(place).random((len(firsts), size))
        else:
            draws = _draw_each(firsts, [seed, position.epoch % fixed_masks], size)
        yield PositionedBatch(make_batch(ids, firsts, count, masking, draws), behind)


def held_out_windows(
    ids: TokenIds, masking: Masking, *, rows: int, length: int
) -> Iterator[Batch[Padded]]:
    """The consecutive whole windows of a text, with masks that do not depend on a seed."""
    count = _window_tokens(len(ids), length, masking)
    firsts, size = np.arange(0, len(ids) - count + 1, count), len_draws(count + masking.num_added)
    for begin in range(0, len(firsts), rows):
        some = firsts[begin : begin + rows]
        yield make_batch(ids, some, count, masking, _draw_each(some, [0, 0], size))


def make_batch(
    ids: TokenIds, firsts: NDArray[np.int64], count: int, masking: Masking, draws: Draws
) -> Batch[Padded]:
    """Windows of `count` tokens from `firsts` (B,) on, masked by `draws` (B, `len_draws`)."""
    if masking.pairs:
        windows = pair_windows(ids, firsts, count, draws[:, :PAIR_DRAWS])
    else:
        windows = single_windows(ids, firsts, count)
    shape = (*windows.ids.shape, TOKEN_DRAWS)
    masked = mask_tokens(windows.ids, masking, draws[:, PAIR_DRAWS:].reshape(shape))
    given = torch.from_numpy(masked.ids)
    segments, row_labels = (
        None if x is None else torch.from_numpy(x) for x in (windows.segments, windows.row_labels)
    )
    all_real = torch.ones_like(given, dtype=torch.bool)
    return Batch(
        Padded(given, all_real, torch.arange(given.numel()), segments),
        None,
        torch.from_numpy(masked.positions),
        torch.from_numpy(masked.labels),
        row_labels,
    )


def len_draws(length: int) -> int:
    """The number of random numbers that a window of `length`, with special tokens, takes."""
    return PAIR_DRAWS + TOKEN_DRAWS * length


def single_windows(ids: TokenIds, firsts: NDArray[np.int64], count: int) -> TextWindows:
    """`count` tokens from each of `firsts` (B,) on, between BOS and EOS."""
    windows = np.full((len(firsts), count + 2), EOS, np.int64)
    windows[:, 0] = BOS
    windows[:, 1:-1] = ids[firsts[:, None] + np.arange(count)]
    return TextWindows(windows)


def pair_windows(ids: TokenIds, firsts: NDArray[np.int64], count: int, draws: Draws) -> TextWindows:
    """`count` tokens as two texts, cut somewhere in the middle half; in half of the pairs, the
    second is from elsewhere in the text. `draws` (B, 3) decide the cut, whether the second text is
    from elsewhere, and from where.
    """
    quarter = max(1, count // 4)
    cuts = quarter + (draws[:, 0] * (count - 2 * quarter + 1)).astype(np.int64)  # (B,)
    elsewhere = draws[:, 1] < 0.5  # (B,)
    follows = firsts + cuts  # where the second text begins, if it follows
    places = len(ids) - (count - cuts) + 1  # where it may begin
    others = (follows + 1 + (draws[:, 2] * (places - 1)).astype(np.int64)) % places
    seconds = np.where(elsewhere, others, follows)
    columns = np.arange(count)  # of the text's tokens
    in_first = columns < cuts[:, None]  # (B, count)
    sources = np.where(in_first, firsts[:, None], (seconds - cuts)[:, None]) + columns
    windows = np.full((len(firsts), count + 3), EOS, np.int64)
    windows[:, 0] = BOS
    np.put_along_axis(windows, columns + np.where(in_first, 1, 2), ids[sources].astype(np.int64), 1)
    segments = (np.arange(count + 3) > cuts[:, None] + 1).astype(np.int64)
    return TextWindows(windows, segments, elsewhere.astype(np.int64))


def mask_tokens(ids: NDArray[np.int64], masking: Masking, draws: Draws) -> MaskedTokens:
    """Windows (B, S) in which a `masking.share` of the tokens is to be predicted; `draws` (B, S, 3)
    decide which, and what replaces them. Special tokens are never chosen.
    """
    rows, length = ids.shape
    num_chosen = max(1, round(masking.share * (length - masking.num_added)))
    ordinary, keys = ids >= NUM_SPECIAL, draws[..., 0]  # (B, S)
    words = None if masking.spaces is None else _word_numbers(ids, masking.spaces)
    if words is not None:
        keys = np.take_along_axis(keys, words, 1)  # all tokens of a word have one
    keys = np.where(ordinary, keys, 1.0)  # special tokens come last
    order = np.argsort(keys, 1, kind="stable")  # the tokens of a word stay together
    chosen = order[:, :num_chosen]  # (B, M / B)
    is_predicted = np.take_along_axis(ordinary, chosen, 1)  # (B, M / B)
    if words is not None:  # a word that does not fit whole is left out
        in_word = np.take_along_axis(words, chosen, 1)
        next_word = np.take_along_axis(words, order[:, num_chosen : num_chosen + 1], 1)
        is_predicted &= in_word != next_word
    labels = np.take_along_axis(ids, chosen, 1)
    fates, others = (np.take_along_axis(draws[..., n], chosen, 1) for n in (1, 2))
    num_ordinary = (masking.vocabulary or masking.mask_id) - NUM_SPECIAL
    drawn = NUM_SPECIAL + (others * num_ordinary).astype(np.int64)
    replaced = np.where(fates < MASKED_SHARE + RANDOM_SHARE, drawn, labels)
    replaced = np.where(fates < MASKED_SHARE, masking.mask_id, replaced)
    masked = ids.copy()
    np.put_along_axis(masked, chosen, np.where(is_predicted, replaced, labels), 1)
    positions = chosen + length * np.arange(rows)[:, None]
    labels = np.where(is_predicted, labels, IGNORE_INDEX)
    return MaskedTokens(masked, positions.flatten(), labels.flatten())


def _word_numbers(ids: NDArray[np.int64], spaces: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The number of each token's word in its row; a special token is a word of its own."""
    special, (begins, ends) = ids < NUM_SPECIAL, np.moveaxis(spaces[ids], -1, 0)  # (B, S) each
    starts = begins | special
    starts[:, 1:] |= (ends | special)[:, :-1]
    return np.cumsum(starts, 1) - 1


def _draw_each(firsts: NDArray[np.int64], seeds: Sequence[int], size: int) -> Draws:
    """Random numbers (B, `size`) for windows, determined by where each begins."""
    return np.stack([np.random.default_rng([*seeds, int(n) + 1]).random(size) for n in firsts])


def _window_tokens(num_tokens: int, length: int, masking: Masking) -> int:
    """The number of text tokens in a window of `length`, for a text of `num_tokens`."""
    count = min(length - masking.num_added, num_tokens - masking.pairs)
    if count < 2:
        raise CorpusError(
            f"a text of {num_tokens:,} tokens is too short to mask some of them; give more"
        )
    return count
