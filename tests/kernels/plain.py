"""The formulas of the kernels of training, with their dropout."""

import torch
import torch.nn.functional as F

from regard.attention.windows import merge_windows, shift_mask, split_windows
from regard.kernels.dropout import drop_threshold

GOLDEN, LOW_32_BITS = 0x9E3779B9, 0xFFFFFFFF


def keep_mask(seed, rows, head, cols, dropout):
    """Whether dropout keeps each number at (`rows`, `head`, `cols`), which broadcast.

    In 64-bit integers, where the kernels' `keep_mask` has 32-bit ones.
    """
    keys = _mix(_mix(rows ^ (seed & LOW_32_BITS)) + head * GOLDEN + ((seed >> 32) & LOW_32_BITS))
    return (_mix(keys + cols * GOLDEN) >> 8) >= drop_threshold(dropout)


def _mix(x):
    x = x & LOW_32_BITS
    x = ((x ^ (x >> 16)) * 0x7FEB352D) & LOW_32_BITS
    x = ((x ^ (x >> 15)) * 0x846CA68B) & LOW_32_BITS
    return x ^ (x >> 16)


def attend_varlen(parts, of_queries, of_keys, *, causal, scale, dropout=0.0, seed=None):
    """Over all N · M pairs of tokens."""
    queries, keys, values = (x for part in parts for x in part.unbind(1))
    rows, cols = (torch.arange(len(x), device=x.device) for x in (queries, keys))
    sentences = (side.indices // side.max_length for side in (of_queries, of_keys))
    visible = torch.eq(next(sentences)[:, None], next(sentences))  # (N, M)
    if causal:
        visible = visible & (rows[:, None] >= cols)
    scores = torch.einsum("nhk,mhk->hnm", queries, keys) * scale  # (H, N, M)
    weights = scores.masked_fill(~visible, float("-inf")).softmax(-1).masked_fill(~visible, 0.0)
    if dropout:
        heads = torch.arange(queries.shape[1], device=rows.device)
        keep = keep_mask(seed, rows[:, None], heads[:, None, None], cols, dropout)  # (H, N, M)
        weights = weights * keep / (1 - dropout)
    return torch.einsum("hnm,mhk->nhk", weights, values)


def attend_windows(stacked, bias, windows, *, scale):
    """Of windows that are split and merged."""
    heads = stacked.shape[3]
    cut = split_windows(stacked.flatten(2), windows)  # (B W, N, 3 H K)
    cut = torch.unflatten(cut, 2, (3, heads, -1))
    queries, keys, values = cut.permute(2, 0, 3, 1, 4).unbind(0)  # (B W, H, N, K)
    scores = queries @ keys.mT * scale + bias  # (B W, H, N, N)
    if windows.shift:
        mask = shift_mask(windows).to(scores.device)  # (W, 1, N, N)
        scores = scores.masked_fill(~mask.repeat(len(stacked), 1, 1, 1), float("-inf"))
    mixed = (scores.softmax(-1) @ values).transpose(1, 2)  # (B W, N, H, K)
    return torch.unflatten(merge_windows(mixed.flatten(2), windows), 2, (heads, -1))


def add_norm_with_sum(x, y, norm, *, bias=None, dropout=0.0, scales=None, seed=None):
    y = y if bias is None else y + bias
    if dropout:
        rows, cols = (torch.arange(size, device=x.device) for size in x.shape)
        keep = keep_mask(seed, rows[:, None], torch.zeros_like(rows[:1]), cols, dropout)  # (N, D)
        y = y * keep / (1 - dropout)
    y = y if scales is None else y * scales[:, None]
    added = x + y
    return added, F.layer_norm(added, added.shape[-1:], *norm)
