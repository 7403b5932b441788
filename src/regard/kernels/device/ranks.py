"""Numbers by which values are put in order, of equal ones the first first."""

import triton
import triton.language as tl

OUT = tl.constexpr(-(1 << 63))
"""The rank of what takes no part, below all others."""


@triton.jit
def ranks(values, places, real):
    """A whole number for each of `values` (float32) that is `real`, no two alike.

    The larger, the larger; of equal ones that at a lower one of `places` (from 0, below 2^31). What
    is not a number ranks with infinity, above all that can be: so that it comes to light.
    """
    values = tl.where(values != values, float("inf"), values) + 0.0  # of two zeros one
    bits = values.to(tl.int32, bitcast=True)
    rising = bits ^ ((bits >> 31) & 0x7FFFFFFF)
    keys = (rising.to(tl.int64) << 32) | (places ^ 0x7FFFFFFF).to(tl.int64)
    return tl.where(real, keys, OUT)


@triton.jit
def place_of(rank):
    """The place of what has a `rank`."""
    return (rank & 0x7FFFFFFF).to(tl.int32) ^ 0x7FFFFFFF


@triton.jit
def value_of(rank):
    """Its value; what is infinite was not a number."""
    rising = (rank >> 32).to(tl.int32)
    values = (rising ^ ((rising >> 31) & 0x7FFFFFFF)).to(tl.float32, bitcast=True)
    return tl.where(values == float("inf"), float("nan"), values)
