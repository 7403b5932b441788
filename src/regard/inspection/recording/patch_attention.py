"""The attention of a picture classifier: each head over the patches, and all layers together."""

from collections.abc import Mapping
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from regard.attention.windows import place_windows
from regard.errors import SettingsError
from regard.images.picture_files import Bytes
from regard.inspection.recording.attention_map import AttentionMaps, Axis, Part
from regard.inspection.recording.picture_attention import PictureAttention
from regard.types import PictureWindows

CLASS_TOKEN, ALL_PATCHES, ROLLOUT = "class token", "all patches", "rollout"  # rows of the maps


class PatchLayerWeights(NamedTuple):
    """The attention of one layer for one picture."""

    weights: Tensor  # (H, T, T), windows put back in place
    grid: tuple[int, int]  # rows and columns of patches, row by row
    class_token: bool  # whether the first of the T positions is a class token, not a patch


def patch_layers(
    weights: Mapping[tuple[Part, int], Tensor],
    windows: Mapping[tuple[Part, int], PictureWindows],
    grid: tuple[int, int],
    *,
    class_token: bool,
) -> list[PatchLayerWeights]:
    """Each recorded layer of one picture; `grid` is that of layers without windows."""
    layers = []
    for site in sorted(weights):
        recorded, cut = weights[site].float(), windows.get(site)
        if cut is None:
            layers.append(PatchLayerWeights(recorded[0], grid, class_token))
        else:
            placed = place_windows(recorded, cut)[0]
            layers.append(PatchLayerWeights(placed, (cut.rows, cut.columns), False))
    if not layers:
        raise SettingsError("the model attends to nothing: there is nothing to look at")
    return layers


def rollout(layers: list[PatchLayerWeights]) -> list[Tensor]:
    """The attention rollout of each layer, through all layers up to it: (T, T₀) each.

    Abnar and Zuidema 2020: R ← ½ (A + I) R, where A is the mean over heads and I stands for the
    residual connection. If 2 × 2 patches are merged, the new patch has the mean of their rows.
    """
    found: list[Tensor] = []
    for number, layer in enumerate(layers):
        mean = layer.weights.mean(0)  # (T, T)
        step = (mean + torch.eye(len(mean))) / 2
        if not found:
            found.append(step)
            continue
        before, at = found[-1], layers[number - 1].grid
        found.append(step @ (before if at == layer.grid else _merge_rows(before, at)))
    return found


def _merge_rows(rows: Tensor, grid: tuple[int, int]) -> Tensor:
    """(T, S) of a grid of patches -> (T / 4, S): means of 2 × 2 patches."""
    split = rows.view(grid[0] // 2, 2, grid[1] // 2, 2, -1)
    return split.mean((1, 3)).flatten(0, 1)


def build_patch_attention(layers: list[PatchLayerWeights], pixels: Bytes) -> PictureAttention:
    """Two rows of maps (L, H, 2, S) over the patches of the first layer, each of which sums to 1.

    The first row is the attention of the class token or, if there is none, of all patches on
    average; the second is the rollout up to the layer, the same for all heads. If a layer has fewer
    patches, each of its weights is spread over the patches that were merged; if it has fewer heads
    than others, the missing ones have the mean over its heads.
    """
    first, most = layers[0], max(len(layer.weights) for layer in layers)
    maps = []
    for layer, rolled in zip(layers, rollout(layers), strict=True):
        own = _looked_at(layer.weights, layer.class_token)  # (H, S)
        own = torch.stack([_spread(head, layer.grid, first.grid) for head in own])
        missing = most - len(own)
        own = torch.cat([own, own.mean(0, keepdim=True).expand(missing, -1)])
        through = _looked_at(rolled[None], layer.class_token).expand(most, -1)
        maps.append(torch.stack([own, through], 1))  # (H, 2, S)
    rows = CLASS_TOKEN if first.class_token else ALL_PATCHES, ROLLOUT
    columns = tuple(f"{row},{column}" for row, column in _places(first.grid))
    down, across = (Axis(names, names, tuple(range(len(names)))) for names in (rows, columns))
    whole = AttentionMaps("encoder", torch.stack(maps), down, across)
    return PictureAttention(whole, first.grid, pixels)


def _looked_at(weights: Tensor, class_token: bool) -> Tensor:
    """(H, T, S) -> the share of each patch (H, S): for the class token, or on average."""
    seen = weights[:, 0, 1:] if class_token else weights.mean(1)
    return seen / seen.sum(-1, keepdim=True).clamp(min=1e-12)


def _spread(weights: Tensor, grid: tuple[int, int], finest: tuple[int, int]) -> Tensor:
    """Weights over a coarse grid (S,) as weights over the finest one (S₀,)."""
    times = finest[0] // grid[0]
    fine = weights.view(grid).repeat_interleave(times, 0).repeat_interleave(times, 1)
    return fine.flatten() / times**2


def _places(grid: tuple[int, int]) -> list[tuple[int, int]]:
    return [(row, column) for row in range(grid[0]) for column in range(grid[1])]


def head_counts(layers: list[PatchLayerWeights]) -> str:
    """A note on layers with different numbers of heads; empty if all have the same number."""
    counts = [len(layer.weights) for layer in layers]
    if len({*counts}) == 1:
        return ""
    starts = [0, *(n for n, (a, b) in enumerate(pairwise(counts), 1) if a != b), len(counts)]
    parts = [
        f"layers {first} to {last - 1} have {counts[first]}" for first, last in pairwise(starts)
    ]
    return f"heads: {', '.join(parts)}; where a layer has fewer, their mean is shown"
