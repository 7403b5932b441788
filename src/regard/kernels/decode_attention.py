"""Attention of a decoding step, whose few queries would leave most of a tile of 64 empty."""

from torch import Tensor

from regard.kernels.dispatch import MIN_TILE, launch, next_power_of_two

KEY_BLOCK = 16
"""Keys per block: small blocks let more programs run at once and hide each other's latency."""
PRECISION = "tf32x3"
"""The precision of float32 products: three TF32 products on tensor cores, about as accurate as one
in float32."""


def decode_attention(
    queries: Tensor, keys: Tensor, values: Tensor, mask_bias: Tensor, *, scale: float
) -> Tensor:
    """softmax(scale Q Kᵀ + mask_bias) V: (B, H, T, K), (B, H, S, K) -> (B, H, T, K).

    `mask_bias` is (B, 1, T|1, S). The result lies in memory as (B, T, H, K), ready to merge heads.
    """
    queries, keys, values, mask_bias = (
        x if x.stride(-1) == 1 else x.contiguous() for x in (queries, keys, values, mask_bias)
    )
    sentences, heads, num, width = queries.shape
    length = keys.shape[2]
    mixed = queries.new_empty(sentences, num, heads, width).transpose(1, 2)  # (B, H, T, K)
    if not mixed.numel():
        return mixed
    rows, width_pow2 = (next_power_of_two(size, least=MIN_TILE) for size in (num, width))
    launch(
        "decode_attention", "decode_attention", (sentences * heads,),
        queries, keys, values, mask_bias, mixed, num, length, scale,
        *queries.stride()[:3], *keys.stride()[:3], *values.stride()[:3],
        mask_bias.stride(0), mask_bias.stride(2) if mask_bias.shape[2] > 1 else 0,
        *mixed.stride()[:3],
        HEADS=heads, WIDTH=width, ROWS=rows, WIDTH_POW2=width_pow2, COLS=KEY_BLOCK,
        PRECISION=PRECISION, num_warps=max(1, KEY_BLOCK * width_pow2 // 1024), num_stages=2,
        on=queries,
    )  # fmt: skip
    return mixed
