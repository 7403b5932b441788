"""Numbers by which values are put in order, of equal ones the first first."""

import triton
import triton.language as tl

EXCLUDED = tl.constexpr(-(1 << 63))
"""The rank of what takes no part, below all others."""


@triton.jit
def sort_keys(values, places, valid):
    """A whole number for each of `values` (float32) that is `real`, no two alike.

    The larger, the larger; of equal ones that at a lower one of `places` (from 0, below 2^31). What
    is not a number ranks with infinity, above all that can be: so that it comes to light.
    """
    values = tl.where(values != values, float("inf"), values) + 0.0  # of two zeros one
    bits = values.to(tl.int32, bitcast=True)
    ordered_bits = bits ^ ((bits >> 31) & 0x7FFFFFFF)
    keys = (ordered_bits.to(tl.int64) << 32) | (places ^ 0x7FFFFFFF).to(tl.int64)
    return tl.where(valid, keys, EXCLUDED)


@triton.jit
def index_of(sort_key):
    """The place of what has a `rank`."""
    return (sort_key & 0x7FFFFFFF).to(tl.int32) ^ 0x7FFFFFFF


@triton.jit
def value_of_key(sort_key):
    """Its value; what is infinite was not a number."""
    ordered_bits = (sort_key >> 32).to(tl.int32)
    values = (ordered_bits ^ ((ordered_bits >> 31) & 0x7FFFFFFF)).to(tl.float32, bitcast=True)
    return tl.where(values == float("inf"), float("nan"), values)
