"""How far each head looks, and at how many words at once."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from regard.inspection.recording.attention_map import AttentionMaps, Part

MAX_DISTANCE = 10
"""The farthest distance that is counted by itself; what lies beyond is counted with it."""


class HeadDistances(NamedTuple):
    """Where the heads of one part look, on the average over all words of some sentences."""

    part: Part
    mean: Tensor  # (L, H) words from who looks to what is looked at, be it ahead or back
    spread: Tensor  # (L, H) how many words share the attention, as if they shared it evenly
    shares: Tensor  # (L, H, 2 REACH + 1) of the attention, what goes REACH back … REACH ahead


def measure_distances(attentions: Sequence[AttentionMaps]) -> HeadDistances:
    """How far the heads look in some sentences, all of one part of one model.

    A distance is counted from the word that looks; in a decoder that is the word being answered.
    In cross attention it is counted from the diagonal, as if both sentences were equally long.
    What a row pays to no column does not count; a row that pays nothing counts nowhere. The spread
    of a row is e to the power of its entropy. A head that never looks has zeros.
    """
    kinds = {(each.part, *each.layers.shape[:2]) for each in attentions}
    if len(kinds) != 1:
        found = "; ".join(" ".join(map(str, kind)) for kind in sorted(kinds)) or "none"
        raise ValueError(f"attention must be of one part, with as many layers and heads: {found}")
    ways = [_row_statistics(each) for each in attentions]
    mean, spread, shares = (
        torch.cat(column, dim=-2).nanmean(-2).nan_to_num(0) for column in zip(*ways, strict=True)
    )  # (L, H, 1), (L, H, 1), (L, H, 2 REACH + 1)
    return HeadDistances(attentions[0].part, mean[..., 0], spread[..., 0], shares)


def offsets(attention: AttentionMaps) -> Tensor:
    """How many words ahead of each row each column stands: (T, S), negative where it is behind."""
    rows, columns = len(attention.rows.pieces), len(attention.columns.pieces)
    ahead = torch.arange(columns)[None] - torch.arange(rows)[:, None]  # (T, S)
    if attention.part == "cross":
        middles = (torch.arange(rows) + 0.5) * columns / rows - 0.5  # (T,)
        return torch.arange(columns)[None] - middles[:, None]  # (T, S)
    # a decoder that is given <s> first answers in each row what stands one column further on
    shifted = attention.part == "decoder" and attention.rows.pieces != attention.columns.pieces
    return (ahead - 1 if shifted else ahead).float()  # (T, S)


def _row_statistics(attention: AttentionMaps) -> tuple[Tensor, Tensor, Tensor]:
    """Mean distance (L, H, T, 1), spread (L, H, T, 1) and shares (L, H, T, ·) of each row.

    NaN where a row pays nothing.
    """
    weights = attention.layers / attention.layers.sum(-1, keepdim=True)  # (L, H, T, S)
    distance = offsets(attention)  # (T, S)
    mean = (weights * distance.abs()).sum(-1, keepdim=True)  # (L, H, T, 1)
    spread = torch.special.entr(weights).sum(-1, keepdim=True).exp()  # (L, H, T, 1)
    bins = distance.round().long().clamp(-MAX_DISTANCE, MAX_DISTANCE) + MAX_DISTANCE  # (T, S)
    shares = weights.new_zeros(*weights.shape[:-1], 2 * MAX_DISTANCE + 1)  # (L, H, T, ·)
    shares.scatter_add_(-1, bins.expand_as(weights), weights)
    return mean, spread, shares.masked_fill(mean.isnan(), torch.nan)
