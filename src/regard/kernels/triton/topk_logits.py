"""The likeliest ways to go on with each sentence, by two kernels of which one reads the logits.

`skim` goes through each row of logits once and leaves, of each chunk of tokens, the largest.
`choose` ranks these and then looks into the best chunks alone, in which all the best ways lie.
"""

import triton
import triton.language as tl

from regard.kernels.triton.sort_keys import EXCLUDED, index_of, sort_keys, value_of_key


@triton.jit
def _without_banned(scores, ids, never):
    """`scores` without those of the `ids` whose bits in `never` are set."""
    banned = (ids < 32) & (((never >> (ids & 31)) & 1) == 1)
    return tl.where(banned, float("-inf"), scores)


@triton.jit(do_not_specialize=["never", "last"])
def chunk_maxima(
    logits, tops, logs, maxima, size, chunks, never, last, floor,
    LOST: tl.constexpr, CHUNK: tl.constexpr, CHUNKS: tl.constexpr,
):  # fmt: skip
    """The largest logit of each chunk of a row, and two numbers that make log-probabilities.

    These are those of the row: the largest, and the logarithm of what all exponentials sum up to
    where that is taken away.
    """
    row = tl.program_id(0).to(tl.int64)
    cells, lanes = logits + row * size, tl.arange(0, CHUNK)[None, :]
    running_max, running_sum = float("-inf"), 0.0
    for first in range(0, chunks, CHUNKS):
        chunk = first + tl.arange(0, CHUNKS)
        ids = chunk[:, None] * CHUNK + lanes
        x = tl.load(cells + ids, mask=ids < size, other=float("-inf")).to(tl.float32)
        allowed = _without_banned(x, ids, never)
        if not LOST:
            allowed = tl.where((ids == last) & (allowed < floor), floor, allowed)
            x = allowed
        tl.store(maxima + row * chunks + chunk, tl.max(allowed, 1), mask=chunk < chunks)
        new_max = tl.maximum(running_max, tl.max(x))
        finite_max = tl.where(new_max == float("-inf"), 0.0, new_max)
        running_sum = running_sum * tl.exp(running_max - finite_max) + tl.sum(
            tl.exp(x - finite_max)
        )
        running_max = new_max
    tl.store(tops + row, running_max)
    tl.store(logs + row, tl.log(running_sum))


@triton.jit
def _take_largest(keys, COUNT: tl.constexpr, PICKS: tl.constexpr):
    """The COUNT largest of `keys`, which are unlike, in the first of (PICKS,); others are OUT."""
    picks = tl.arange(0, PICKS)
    best_keys = tl.full((PICKS,), EXCLUDED, tl.int64)
    for number in range(COUNT):
        best = tl.max(keys)
        best_keys = tl.where(picks == number, best, best_keys)
        keys = tl.where(keys == best, EXCLUDED, keys)
    return best_keys


@triton.jit
def _with_eos_floor(log_probs, ids, last, floor, LOST: tl.constexpr):
    """The last token is never impossible, lest a hypothesis have nothing to say."""
    if LOST:
        log_probs = tl.where((ids == last) & (log_probs < floor), floor, log_probs)
    return log_probs


@triton.jit(do_not_specialize=["never", "last"])
def rank_chunks(
    logits, tops, logs, maxima, totals, values, tokens, parents,
    size, chunks, never, last, floor,
    LOST: tl.constexpr, CHUNK: tl.constexpr, CELLS: tl.constexpr, LANES: tl.constexpr,
    COUNT: tl.constexpr, PICKS: tl.constexpr,
):  # fmt: skip
    """The COUNT best ways to go on with one sentence, by sums of log-probabilities.

    Of equally good ones the first, in the order of cells and tokens.
    """
    sentence = tl.program_id(0).to(tl.int64)
    rows = sentence * CELLS
    index = tl.arange(0, LANES)
    valid, cell = index < CELLS * chunks, index // chunks
    high = tl.load(maxima + rows * chunks + index, mask=valid, other=0.0)
    high -= tl.load(tops + rows + cell, mask=valid, other=0.0)
    high -= tl.load(logs + rows + cell, mask=valid, other=0.0)
    # the chunk with the last token in it is as good as that at the least
    high = _with_eos_floor(high, index - cell * chunks, last // CHUNK, floor, LOST)
    high += tl.load(totals + rows + cell, mask=valid, other=0.0)
    best_keys = _take_largest(sort_keys(high, index, valid), COUNT, PICKS)

    index, valid = index_of(best_keys), best_keys != EXCLUDED
    cell = tl.where(valid, index // chunks, 0)
    ids = (index - cell * chunks)[:, None] * CHUNK + tl.arange(0, CHUNK)[None, :]
    valid = valid[:, None] & (ids < size)
    cells = logits + (rows + cell)[:, None] * size
    sums = tl.load(cells + ids, mask=valid, other=float("-inf")).to(tl.float32)
    if not LOST:
        sums = tl.where((ids == last) & (sums < floor), floor, sums)
    sums = sums - tl.load(tops + rows + cell)[:, None] - tl.load(logs + rows + cell)[:, None]
    sums = _with_eos_floor(_without_banned(sums, ids, never), ids, last, floor, LOST)
    sums += tl.load(totals + rows + cell)[:, None]
    best_keys = _take_largest(sort_keys(sums, cell[:, None] * size + ids, valid), COUNT, PICKS)

    picks, place = tl.arange(0, PICKS), index_of(best_keys)
    out = sentence * COUNT + picks
    tl.store(values + out, value_of_key(best_keys), mask=picks < COUNT)
    tl.store(tokens + out, (place % size).to(tl.int64), mask=picks < COUNT)
    tl.store(parents + out, (place // size).to(tl.int64), mask=picks < COUNT)
