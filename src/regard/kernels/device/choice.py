"""The likeliest ways to go on with each sentence, by two kernels of which one reads the logits.

`skim` goes through each row of logits once and leaves, of each chunk of tokens, the largest.
`choose` ranks these and then looks into the best chunks alone, in which all the best ways lie.
"""

import triton
import triton.language as tl

from regard.kernels.device.ranks import OUT, place_of, ranks, value_of


@triton.jit
def _sayable(scores, ids, never):
    """`scores` without those of the `ids` whose bits in `never` are set."""
    banned = (ids < 32) & (((never >> (ids & 31)) & 1) == 1)
    return tl.where(banned, float("-inf"), scores)


@triton.jit(do_not_specialize=["never", "last"])
def skim(
    logits, tops, logs, maxima, size, chunks, never, last, floor,
    LOST: tl.constexpr, CHUNK: tl.constexpr, CHUNKS: tl.constexpr,
):  # fmt: skip
    """The largest logit of each chunk of a row, and two numbers that make log-probabilities.

    These are those of the row: the largest, and the logarithm of what all exponentials sum up to
    where that is taken away.
    """
    row = tl.program_id(0).to(tl.int64)
    cells, lanes = logits + row * size, tl.arange(0, CHUNK)[None, :]
    top, total = float("-inf"), 0.0
    for first in range(0, chunks, CHUNKS):
        chunk = first + tl.arange(0, CHUNKS)
        ids = chunk[:, None] * CHUNK + lanes
        x = tl.load(cells + ids, mask=ids < size, other=float("-inf")).to(tl.float32)
        said = _sayable(x, ids, never)
        if not LOST:
            said = tl.where((ids == last) & (said < floor), floor, said)
            x = said
        tl.store(maxima + row * chunks + chunk, tl.max(said, 1), mask=chunk < chunks)
        higher = tl.maximum(top, tl.max(x))
        level = tl.where(higher == float("-inf"), 0.0, higher)
        total = total * tl.exp(top - level) + tl.sum(tl.exp(x - level))
        top = higher
    tl.store(tops + row, top)
    tl.store(logs + row, tl.log(total))


@triton.jit
def _best(keys, COUNT: tl.constexpr, PICKS: tl.constexpr):
    """The COUNT largest of `keys`, which are unlike, in the first of (PICKS,); others are OUT."""
    picks = tl.arange(0, PICKS)
    found = tl.full((PICKS,), OUT, tl.int64)
    for number in range(COUNT):
        best = tl.max(keys)
        found = tl.where(picks == number, best, found)
        keys = tl.where(keys == best, OUT, keys)
    return found


@triton.jit
def _floored(log_probs, ids, last, floor, LOST: tl.constexpr):
    """The last token is never impossible, lest a hypothesis have nothing to say."""
    if LOST:
        log_probs = tl.where((ids == last) & (log_probs < floor), floor, log_probs)
    return log_probs


@triton.jit(do_not_specialize=["never", "last"])
def choose(
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
    at = tl.arange(0, LANES)
    real, cell = at < CELLS * chunks, at // chunks
    high = tl.load(maxima + rows * chunks + at, mask=real, other=0.0)
    high -= tl.load(tops + rows + cell, mask=real, other=0.0)
    high -= tl.load(logs + rows + cell, mask=real, other=0.0)
    # the chunk with the last token in it is as good as that at the least
    high = _floored(high, at - cell * chunks, last // CHUNK, floor, LOST)
    high += tl.load(totals + rows + cell, mask=real, other=0.0)
    found = _best(ranks(high, at, real), COUNT, PICKS)

    at, real = place_of(found), found != OUT
    cell = tl.where(real, at // chunks, 0)
    ids = (at - cell * chunks)[:, None] * CHUNK + tl.arange(0, CHUNK)[None, :]
    real = real[:, None] & (ids < size)
    cells = logits + (rows + cell)[:, None] * size
    sums = tl.load(cells + ids, mask=real, other=float("-inf")).to(tl.float32)
    if not LOST:
        sums = tl.where((ids == last) & (sums < floor), floor, sums)
    sums = sums - tl.load(tops + rows + cell)[:, None] - tl.load(logs + rows + cell)[:, None]
    sums = _floored(_sayable(sums, ids, never), ids, last, floor, LOST)
    sums += tl.load(totals + rows + cell)[:, None]
    found = _best(ranks(sums, cell[:, None] * size + ids, real), COUNT, PICKS)

    picks, place = tl.arange(0, PICKS), place_of(found)
    out = sentence * COUNT + picks
    tl.store(values + out, value_of(found), mask=picks < COUNT)
    tl.store(tokens + out, (place % size).to(tl.int64), mask=picks < COUNT)
    tl.store(parents + out, (place // size).to(tl.int64), mask=picks < COUNT)
