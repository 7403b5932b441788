"""Random bits that are a function of a seed and a place, so that a backward pass finds them again.

Their plain twin is `regard.kernels.dropout_rng`.
"""

import triton
import triton.language as tl


@triton.jit
def mix(x):
    """A 32-bit number made of each (Wellons 2018, `lowbias32`): every bit depends on every bit."""
    x = x ^ (x >> 16)
    x = x * tl.full((1,), 0x7FEB352D, tl.uint32)
    x = x ^ (x >> 15)
    x = x * tl.full((1,), 0x846CA68B, tl.uint32)
    return x ^ (x >> 16)


@triton.jit
def row_keys(seed, rows, part):
    """Where the numbers of each row begin: `seed` is a pointer, `rows` (R,), `part` a number."""
    seed_bits = tl.load(seed)
    low = (seed_bits & 0xFFFFFFFF).to(tl.uint32)
    high = ((seed_bits >> 32) & 0xFFFFFFFF).to(tl.uint32)
    golden = tl.full((1,), 0x9E3779B9, tl.uint32)
    first = mix(rows.to(tl.uint32) ^ low)
    return mix(first + part.to(tl.uint32) * golden + high)


@triton.jit
def keep_mask(keys, cols, threshold):
    """Whether each cell stays, where `keys` and `cols` broadcast to it: SplitMix in 32 bits.

    `threshold` is the share to drop, in 2^24ths.
    """
    golden = tl.full((1,), 0x9E3779B9, tl.uint32)
    bits = mix(keys + cols.to(tl.uint32) * golden)
    return (bits >> 8).to(tl.int32) >= threshold
