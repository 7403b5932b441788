"""Attention maps in the viewer's format: arrays in base64, as small as possible.

Weights are bytes, each a share of the largest of its row, so that a row over many columns keeps its
shape. If queries and keys take fewer bytes and reproduce the weights, only they are stored, and the
page computes the weights.
"""

import base64

import torch
from torch import Tensor
from typing_extensions import TypedDict  # before Python 3.12 pydantic takes no other

from regard.attention.attend import causal_mask, masked_softmax
from regard.inspection.recording.attention_map import AttentionMaps
from regard.types import ScoreInputs

WEIGHT_LEVELS = 255  # the byte of the largest weight of a row
MAX_WEIGHT_ERROR = 0.004  # of weights that are computed from 16-bit queries and keys
MIN_SPARSITY = 4  # rows that see at most one in this many columns are stored without the others


class ViewerLayer(TypedDict):
    """The maps of all heads of a layer; arrays are in base64, little-endian, row by row."""

    shape: list[int]
    """Heads, rows and columns."""
    weights: str | None
    """Bytes (H, T, N), 255 being the largest of the row; None: softmax(scores)."""
    peaks: str | None
    """float32 (H, T): the largest weight of each row."""
    seen: str | None
    """uint16 (T, N): the columns that each row sees; None: all, N = S."""
    queries: str | None
    """float16 (H, T, K); None: the scores are not products of queries and keys."""
    keys: str | None
    """float16 (H, S, K)."""
    bias: str | None
    """float16 (H, T, N), added to the scores; None: no bias."""
    scale: float | None
    """The factor of the products."""
    causal: bool
    """Whether a row sees no column after its own."""
    grid: list[int] | None
    """Rows and columns of patches, if the map's rows are the patches of a picture."""


class ViewerMaps(TypedDict):
    """All maps of one part."""

    layers: list[ViewerLayer]


def encode_maps(attention: AttentionMaps, grid: tuple[int, int] | None = None) -> ViewerMaps:
    """All layers of a part; `grid` are the rows and columns of patches of a picture."""
    scores = attention.scores or (None,) * len(attention.weights)
    layers = zip(attention.weights, scores, strict=True)
    return {"layers": [encode_layer(weights, inputs, grid) for weights, inputs in layers]}


def encode_layer(
    weights: Tensor, inputs: ScoreInputs | None, grid: tuple[int, int] | None = None
) -> ViewerLayer:
    """The weights (H, T, S) of a layer, and its queries and keys if they were recorded."""
    weights = weights.nan_to_num().clamp(0, 1)
    causal = inputs is not None and _is_causal(inputs.mask, weights)
    computed = inputs is not None and _gives_weights(inputs, weights, causal=causal)
    seen = None if computed else _seen_columns(weights)  # (T, N)
    layer: ViewerLayer = {
        "shape": list(weights.shape),
        "weights": None,
        "peaks": None,
        "seen": None,
        "queries": None,
        "keys": None,
        "bias": None,
        "scale": None,
        "causal": causal,
        "grid": None if grid is None else list(grid),
    }
    if not computed:
        kept = weights if seen is None else _gather(weights, seen)  # (H, T, N)
        peaks = kept.amax(-1) if kept.shape[-1] else kept.new_zeros(kept.shape[:2])  # (H, T)
        levels = kept / peaks.clamp_min(torch.finfo(kept.dtype).tiny)[..., None] * WEIGHT_LEVELS
        layer["weights"], layer["peaks"] = _pack(levels.round().byte()), _pack(peaks.float())
        layer["seen"] = None if seen is None else _pack(seen.to(torch.uint16))
    if inputs is not None:
        layer["queries"], layer["keys"] = _pack(inputs.queries.half()), _pack(inputs.keys.half())
        layer["scale"] = inputs.scale
        if inputs.bias is not None:
            bias = inputs.bias.expand(weights.shape)
            layer["bias"] = _pack((bias if seen is None else _gather(bias, seen)).half())
    return layer


def _is_causal(mask: Tensor | None, weights: Tensor) -> bool:
    rows, columns = weights.shape[-2:]
    if mask is None:
        return False
    return rows == columns > 1 and bool((mask == causal_mask(rows, columns)[0]).all())


def _gives_weights(inputs: ScoreInputs, weights: Tensor, *, causal: bool) -> bool:
    """Whether the page should compute the weights (H, T, S) from 16-bit queries and keys, because
    these take fewer bytes and reproduce the weights.
    """
    vectors = 2 * (inputs.queries.numel() + inputs.keys.numel())  # bytes
    if weights.numel() <= vectors or inputs.bias is not None:
        return False
    mask = inputs.queries.new_ones(1, dtype=torch.bool) if inputs.mask is None else inputs.mask
    if not (causal or bool(mask.all())):
        return False
    queries, keys = (x.half().float() for x in (inputs.queries, inputs.keys))
    computed = masked_softmax(queries @ keys.mT * inputs.scale, mask)
    return bool((computed - weights).abs().amax() <= MAX_WEIGHT_ERROR)


def _seen_columns(weights: Tensor) -> Tensor | None:
    """The columns (T, N) to which some head gives a weight, ascending; None if there are many."""
    seen = (weights > 0).any(0)  # (T, S)
    most = int(seen.sum(-1).max()) if seen.numel() else 0
    if not 0 < most * MIN_SPARSITY <= seen.shape[-1]:
        return None
    return seen.to(torch.uint8).topk(most, dim=-1, sorted=False).indices.sort(-1).values


def _gather(x: Tensor, seen: Tensor) -> Tensor:
    """`x` (H, T, S) at the columns `seen` (T, N): (H, T, N)."""
    return x.gather(-1, seen.expand(len(x), -1, -1))


def _pack(x: Tensor) -> str:
    return base64.b64encode(x.contiguous().numpy().tobytes()).decode()
