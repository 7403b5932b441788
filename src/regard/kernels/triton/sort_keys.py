"""Integer keys that order float32 values; ties are broken by index."""

import triton
import triton.language as tl

EXCLUDED = tl.constexpr(-(1 << 63))
"""The key of an invalid value, below all others."""


@triton.jit
def sort_keys(values, indices, valid):
    """A distinct int64 for each of `values` (float32), larger for larger values.

    Of equal values the one with the lower index (from 0, below 2^31) has the larger key. NaN ranks
    above all finite values, so that it is not lost. Where `valid` is False the key is EXCLUDED.
    """
    values = tl.where(values != values, float("inf"), values) + 0.0  # -0.0 becomes 0.0
    bits = values.to(tl.int32, bitcast=True)
    ordered_bits = bits ^ ((bits >> 31) & 0x7FFFFFFF)
    keys = (ordered_bits.to(tl.int64) << 32) | (indices ^ 0x7FFFFFFF).to(tl.int64)
    return tl.where(valid, keys, EXCLUDED)


@triton.jit
def index_of(key):
    return (key & 0x7FFFFFFF).to(tl.int32) ^ 0x7FFFFFFF


@triton.jit
def value_of_key(key):
    """The value; infinity stands for NaN."""
    ordered_bits = (key >> 32).to(tl.int32)
    values = (ordered_bits ^ ((ordered_bits >> 31) & 0x7FFFFFFF)).to(tl.float32, bitcast=True)
    return tl.where(values == float("inf"), float("nan"), values)
