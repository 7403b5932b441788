"""32-bit SplitMix: random bits from a seed and an index; a backward pass computes the same mask."""

import triton
import triton.language as tl


@triton.jit
def mix(x):
    """A hash of each 32-bit number (Wellons 2018, `lowbias32`): every bit affects every bit."""
    x = x ^ (x >> 16)
    x = x * tl.full((1,), 0x7FEB352D, tl.uint32)
    x = x ^ (x >> 15)
    x = x * tl.full((1,), 0x846CA68B, tl.uint32)
    return x ^ (x >> 16)


@triton.jit
def row_keys(seed, rows, head):
    """The start of each row's sequence: `seed` is a pointer, `rows` (R,), `head` a number."""
    seed_bits = tl.load(seed)
    low = (seed_bits & 0xFFFFFFFF).to(tl.uint32)
    high = ((seed_bits >> 32) & 0xFFFFFFFF).to(tl.uint32)
    golden = tl.full((1,), 0x9E3779B9, tl.uint32)
    first = mix(rows.to(tl.uint32) ^ low)
    return mix(first + head.to(tl.uint32) * golden + high)


@triton.jit
def keep_mask(keys, cols, threshold):
    """Whether each number is kept, by row and column; `threshold`: 2^24 times the probability."""
    golden = tl.full((1,), 0x9E3779B9, tl.uint32)
    bits = mix(keys + cols.to(tl.uint32) * golden)
    return (bits >> 8).to(tl.int32) >= threshold
