"""The best continuations of each sentence, by two kernels; only the first reads all logits.

`chunk_maxima` reads each row of logits once and writes the largest of each chunk of tokens.
`rank_chunks` ranks these and reads only the best chunks, which hold all the best continuations.
"""

import triton
import triton.language as tl

from regard.kernels.triton.sort_keys import EXCLUDED, index_of, sort_keys, value_of_key


@triton.jit
def _without_banned(scores, ids, banned_bits):
    """`scores` with -inf for the `ids` whose bits in `banned_bits` are set."""
    banned = (ids < 32) & (((banned_bits >> (ids & 31)) & 1) == 1)
    return tl.where(banned, float("-inf"), scores)


@triton.jit(do_not_specialize=["banned_bits", "eos"])
def chunk_maxima(
    logits, tops, logs, maxima, size, chunks, banned_bits, eos, floor,
    BANNED_KEEP_MASS: tl.constexpr, CHUNK: tl.constexpr, CHUNKS: tl.constexpr,
):  # fmt: skip
    """The largest logit of each chunk and of the row; the row's log-sum-exp minus the latter."""
    row = tl.program_id(0).to(tl.int64)
    cells, lanes = logits + row * size, tl.arange(0, CHUNK)[None, :]
    running_max, running_sum = float("-inf"), 0.0
    for first in range(0, chunks, CHUNKS):
        chunk = first + tl.arange(0, CHUNKS)
        ids = chunk[:, None] * CHUNK + lanes
        x = tl.load(cells + ids, mask=ids < size, other=float("-inf")).to(tl.float32)
        allowed = _without_banned(x, ids, banned_bits)
        if not BANNED_KEEP_MASS:
            allowed = tl.where((ids == eos) & (allowed < floor), floor, allowed)
            x = allowed
        tl.store(maxima + row * chunks + chunk, tl.max(allowed, 1), mask=chunk < chunks)
        new_max = tl.maximum(running_max, tl.max(x))
        finite_max = tl.where(new_max == float("-inf"), 0.0, new_max)
        block_sum = tl.sum(tl.exp(x - finite_max))
        running_sum = running_sum * tl.exp(running_max - finite_max) + block_sum
        running_max = new_max
    tl.store(tops + row, running_max)
    tl.store(logs + row, tl.log(running_sum))


@triton.jit
def _take_largest(keys, COUNT: tl.constexpr, PICKS: tl.constexpr):
    """The COUNT largest of `keys`, which are distinct, then EXCLUDED: (PICKS,)."""
    picks = tl.arange(0, PICKS)
    best_keys = tl.full((PICKS,), EXCLUDED, tl.int64)
    for number in range(COUNT):
        best = tl.max(keys)
        best_keys = tl.where(picks == number, best, best_keys)
        keys = tl.where(keys == best, EXCLUDED, keys)
    return best_keys


@triton.jit
def _with_eos_floor(log_probs, ids, eos, floor, BANNED_KEEP_MASS: tl.constexpr):
    """EOS has at least `floor`, so that a hypothesis always has a continuation."""
    if BANNED_KEEP_MASS:
        log_probs = tl.where((ids == eos) & (log_probs < floor), floor, log_probs)
    return log_probs


@triton.jit(do_not_specialize=["banned_bits", "eos"])
def rank_chunks(
    logits, tops, logs, maxima, totals, values, tokens, parents,
    size, chunks, banned_bits, eos, floor,
    BANNED_KEEP_MASS: tl.constexpr, CHUNK: tl.constexpr, BEAM: tl.constexpr,
    CHUNKS_POW2: tl.constexpr, COUNT: tl.constexpr, PICKS: tl.constexpr,
):  # fmt: skip
    """The COUNT best continuations of one sentence; ties are broken by hypothesis, then token."""
    sentence = tl.program_id(0).to(tl.int64)
    rows = sentence * BEAM
    index = tl.arange(0, CHUNKS_POW2)
    valid, cell = index < BEAM * chunks, index // chunks
    high = tl.load(maxima + rows * chunks + index, mask=valid, other=0.0)
    high -= tl.load(tops + rows + cell, mask=valid, other=0.0)
    high -= tl.load(logs + rows + cell, mask=valid, other=0.0)
    # The chunk that holds EOS has at least its floor.
    high = _with_eos_floor(high, index - cell * chunks, eos // CHUNK, floor, BANNED_KEEP_MASS)
    high += tl.load(totals + rows + cell, mask=valid, other=0.0)
    best_keys = _take_largest(sort_keys(high, index, valid), COUNT, PICKS)

    index, valid = index_of(best_keys), best_keys != EXCLUDED
    cell = tl.where(valid, index // chunks, 0)
    ids = (index - cell * chunks)[:, None] * CHUNK + tl.arange(0, CHUNK)[None, :]
    valid = valid[:, None] & (ids < size)
    cells = logits + (rows + cell)[:, None] * size
    sums = tl.load(cells + ids, mask=valid, other=float("-inf")).to(tl.float32)
    if not BANNED_KEEP_MASS:
        sums = tl.where((ids == eos) & (sums < floor), floor, sums)
    sums = sums - tl.load(tops + rows + cell)[:, None] - tl.load(logs + rows + cell)[:, None]
    sums = _without_banned(sums, ids, banned_bits)
    sums = _with_eos_floor(sums, ids, eos, floor, BANNED_KEEP_MASS)
    sums += tl.load(totals + rows + cell)[:, None]
    best_keys = _take_largest(sort_keys(sums, cell[:, None] * size + ids, valid), COUNT, PICKS)

    picks, index = tl.arange(0, PICKS), index_of(best_keys)
    out = sentence * COUNT + picks
    tl.store(values + out, value_of_key(best_keys), mask=picks < COUNT)
    tl.store(tokens + out, (index % size).to(tl.int64), mask=picks < COUNT)
    tl.store(parents + out, (index // size).to(tl.int64), mask=picks < COUNT)
