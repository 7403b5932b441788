"""Statistics of attention heads as figures: how far each attends, what its removal costs."""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

import torch
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from torch import Tensor

from regard.inspection.plots.figure import FRAME_WIDTH, InchFigure, ThemeName, colour_scale
from regard.inspection.recording.attention_map import AttentionMaps, Part

MAX_DISTANCE = 10  # larger distances are counted as this one
DISTANCE_ORIGIN = {
    "cross": "the diagonal",
    "encoder": "the word that looks",
    "decoder": "the word to come",
}

# Lengths are in inches.
DISTANCE_CELL, LAYER_GAP, PANEL_GAP, POINT_PANEL_WIDTH, CAPTION_OFFSET = 0.2, 0.14, 0.35, 1.7, 0.1
COST_WIDTH, COST_HEIGHT, PART_GAP = 0.6, 0.36, 0.14


class HeadDistances(NamedTuple):
    """How far the heads of one part attend, averaged over all rows of some sentences."""

    part: Part
    mean: Tensor  # (L, H) words between a row and what it attends to, forward or backward
    spread: Tensor  # (L, H) exp of the entropy: the number of words attended to at once
    shares: Tensor  # (L, H, 2 MAX_DISTANCE + 1) of the attention, by distance backward … forward


def measure_distances(attentions: Sequence[AttentionMaps]) -> HeadDistances:
    """How far the heads attend in some sentences, all of one part of one model.

    Distances are from a row's own word (in a decoder the predicted one), in cross attention from
    the diagonal, as if both sentences were equally long. Rows are normalized to sum to 1; rows of
    zeros are left out, and a head that has only rows of zeros is 0.
    """
    kinds = {(maps.part, *maps.weights.shape[:2]) for maps in attentions}
    if len(kinds) != 1:
        found = "; ".join(" ".join(map(str, kind)) for kind in sorted(kinds)) or "none"
        raise ValueError(f"attention must be of one part, with equal layers and heads: {found}")
    mean, spread, shares = (
        torch.cat(statistic, dim=-2).nanmean(-2).nan_to_num(0)
        for statistic in zip(*map(_row_statistics, attentions), strict=True)
    )  # (L, H, 1), (L, H, 1), (L, H, 2 MAX_DISTANCE + 1)
    return HeadDistances(attentions[0].part, mean[..., 0], spread[..., 0], shares)


def offsets(attention: AttentionMaps) -> Tensor:
    """The distance from each row to each column in words: (T, S), negative if backward."""
    rows, columns = len(attention.rows.pieces), len(attention.columns.pieces)
    origins = torch.arange(rows).float()  # (T,)
    if attention.part == "cross":
        origins = (origins + 0.5) * columns / rows - 0.5
    elif attention.part == "decoder" and attention.rows.pieces != attention.columns.pieces:
        origins += 1  # a decoder whose first input is BOS predicts the piece of the next column
    return torch.arange(columns) - origins[:, None]  # (T, S)


def _row_statistics(attention: AttentionMaps) -> tuple[Tensor, Tensor, Tensor]:
    """Mean distance, spread (both L, H, T, 1) and shares (L, H, T, ·); NaN in rows of zeros."""
    weights = attention.weights / attention.weights.sum(-1, keepdim=True)  # (L, H, T, S)
    distance = offsets(attention)  # (T, S)
    mean = (weights * distance.abs()).sum(-1, keepdim=True)  # (L, H, T, 1)
    spread = torch.special.entr(weights).sum(-1, keepdim=True).exp()  # (L, H, T, 1)
    bins = distance.round().long().clamp(-MAX_DISTANCE, MAX_DISTANCE) + MAX_DISTANCE  # (T, S)
    shares = weights.new_zeros(*weights.shape[:-1], 2 * MAX_DISTANCE + 1)  # (L, H, T, ·)
    shares.scatter_add_(-1, bins.expand_as(weights), weights)
    return mean, spread, shares.masked_fill(mean.isnan(), torch.nan)


def plot_distances(attentions: Sequence[AttentionMaps], *, theme: ThemeName = "light") -> Figure:
    """A row for each head, over sentences of one part of one model: its attention by distance, the
    mean distance, and the spread.
    """
    found = measure_distances(attentions)
    layers, heads = found.mean.shape
    columns, block = DISTANCE_CELL * (2 * MAX_DISTANCE + 1), DISTANCE_CELL * heads
    width = columns + 2 * (PANEL_GAP + POINT_PANEL_WIDTH)
    figure = InchFigure(width, layers * (block + LAYER_GAP) - LAYER_GAP, theme)
    scale = colour_scale(figure.theme.sequential, float(found.shares.max()))
    tops = [layer * (block + LAYER_GAP) for layer in range(layers)]
    for layer, top in enumerate(tops):
        axes = figure.add_panel(0, top, columns, block)
        figure.draw_heatmap(axes, found.shares[layer], scale, num_cells=found.shares.numel())
        figure.label_rows(axes, [f"{layer}.{head}" for head in range(heads)], 8)
    ticks = range(-MAX_DISTANCE, MAX_DISTANCE + 1, 5)
    names = [f"{distance:+d}".replace("-", "−") if distance else "0" for distance in ticks]
    axes.set_xticks([distance + MAX_DISTANCE + 0.5 for distance in ticks], names)
    axes.tick_params(axis="x", length=2, width=FRAME_WIDTH, labelsize=7)
    middles = [top + DISTANCE_CELL * (head + 0.5) for top in tops for head in range(heads)]
    _draw_points(figure, columns + PANEL_GAP, middles, found.mean, "how far")
    _draw_points(figure, width - POINT_PANEL_WIDTH, middles, found.spread, "at how many at once")
    caption = f"{found.part} attention by distance from {DISTANCE_ORIGIN[found.part]}"
    figure.write(figure.overlay, 0, -CAPTION_OFFSET, caption)
    note = (
        f"rows: layer.head; {len(attentions):,} sentence{'s' * (len(attentions) > 1)}; distances "
        f"beyond {MAX_DISTANCE} are counted as {MAX_DISTANCE}"
    )
    figure.write(figure.overlay, 0, figure.height + 0.4, note)
    figure.add_colourbar(scale, gap=0.25)
    return figure


def _draw_points(
    figure: InchFigure, left: float, middles: Sequence[float], numbers: Tensor, caption: str
) -> None:
    """A panel with a point for each head, its number along the x axis."""
    axes = figure.add_panel(left, 0, POINT_PANEL_WIDTH, figure.height)
    values = numbers.flatten().tolist()
    axes.hlines(middles, 0, values, color=figure.theme.border, linewidth=FRAME_WIDTH)
    axes.plot(values, middles, "o", color=figure.theme.accent, markersize=4, clip_on=False)
    axes.set(ylim=(figure.height, 0), xlim=(0, 1.08 * max(values) or 1), yticks=[])
    axes.xaxis.set_major_locator(MaxNLocator(4))
    figure.label_axes(axes)
    axes.spines[["top", "right"]].set_visible(False)
    figure.write(axes, 0, -CAPTION_OFFSET, caption)


def plot_head_costs(
    costs: Mapping[str, Tensor],
    whole: Mapping[str, Tensor] | None = None,
    *,
    theme: ThemeName = "light",
) -> Figure:
    """BLEU lost: a panel for each part of a model, its layers (L) down, its heads (H) across, and
    in a last column the cost of losing the `whole` layer (L), if given.

    All `costs` (L, H) share one scale from 0 on: negative costs have the colour of 0.
    """
    last = [] if whole is None else ["whole layer"]
    if whole is not None:
        costs = {part: torch.cat([one, whole[part][:, None]], 1) for part, one in costs.items()}
    layers, widest = sum(map(len, costs.values())), max(part.shape[1] for part in costs.values())
    height = COST_HEIGHT * layers + PART_GAP * (len(costs) - 1)
    figure, top = InchFigure(COST_WIDTH * widest, height, theme), 0.0
    colours = figure.theme
    peak = max(float(part.max()) for part in costs.values())
    scale = colour_scale(colours.sequential, peak)
    for name, part in costs.items():
        rows, columns = part.shape
        axes = figure.add_panel(0, top, COST_WIDTH * columns, COST_HEIGHT * rows)
        figure.draw_heatmap(axes, part.clamp_min(0), scale)
        for row, column in product(range(rows), range(columns)):
            cost = float(part[row, column])
            style: dict[str, Any] = {"ha": "center", "va": "center_baseline"}
            style["color"] = colours.background if 2 * cost > peak else colours.foreground
            figure.write(axes, column + 0.5, row + 0.5, _format_cost(cost), **style)
        figure.label_rows(axes, [f"{name} {layer}" for layer in range(rows)], 9)
        if top == 0:
            heads = [f"head {head}" for head in range(columns - len(last))]
            figure.label_columns(axes, heads + last, 9)
        top += COST_HEIGHT * rows + PART_GAP
    figure.add_colourbar(scale, gap=0.3, label="BLEU lost")
    return figure


def _format_cost(cost: float) -> str:
    shown = f"{cost:.1f}"
    return "0" if shown in ("0.0", "-0.0") else shown
