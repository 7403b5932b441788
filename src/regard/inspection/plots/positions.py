"""A model's positional encodings, and a figure of them: the vectors and their cosines."""

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from torch import Tensor, nn

from regard.attention.multihead import SelfAttention
from regard.attention.positions import (
    LearnedPositions,
    RelativeKeys,
    SinusoidPositions,
    apply_rotary,
)
from regard.errors import SettingsError
from regard.inspection.plots.figure import InchFigure, ThemeName, colour_scale

# Lengths are in inches.
PANEL_SIZE, VECTOR_PANEL_WIDTH, PANEL_GAP, ROW_GAP = 2.2, 4.0, 0.75, 1.15
TICK_STEPS = [digit * 10**zeros for zeros in range(9) for digit in (1, 2, 5)]
CAPTION_Y, HEADING_Y = 1.04, 1.15  # heights of the texts above a panel, as multiples of its height


class PositionEncoding(NamedTuple):
    """A vector for each position, or for each distance."""

    kind: Literal["sinusoid", "learned", "relative", "rotary"]
    modules: tuple[str, ...]  # the modules that have exactly these vectors, by path in the model
    positions: Tensor  # (P,) from 0 on; of relative encodings, distances from query to key
    vectors: Tensor  # (P, D)

    def similarity(self) -> Tensor:
        """The cosine between every two vectors: (P, P)."""
        directions = F.normalize(self.vectors, dim=-1)  # (P, D)
        return directions @ directions.mT


class SimilarityByDistance(NamedTuple):
    """The cosines of vectors at each distance from 0 on: each (P,)."""

    mean: Tensor
    least: Tensor
    most: Tensor


def read_positions(model: nn.Module, length: int) -> tuple[PositionEncoding, ...]:
    """The encodings of up to `length` positions in `model`; modules with equal vectors are merged.

    Rotary encodings rotate pairs of numbers: the vectors are the rotated pairs (1, 0).
    """
    encodings: dict[tuple[str, bytes], PositionEncoding] = {}
    for found in _find_encodings(model, length):
        key = found.kind, found.vectors.numpy().tobytes()
        known = encodings.setdefault(key, found._replace(modules=()))
        encodings[key] = known._replace(modules=(*known.modules, *found.modules))
    if not encodings:
        raise SettingsError(
            f"{type(model).__name__}: this model has no positional encodings, as is usual for "
            "recurrent and dilated models, which read tokens in order"
        )
    return tuple(encodings.values())


def similarity_by_distance(similarity: Tensor) -> SimilarityByDistance:
    """The mean, least and largest of the cosines (P, P) at each distance."""
    lines = [similarity.diagonal(distance) for distance in range(len(similarity))]
    statistics = zip(*((line.mean(), line.min(), line.max()) for line in lines), strict=True)
    return SimilarityByDistance(*map(torch.stack, statistics))


def _find_encodings(model: nn.Module, length: int) -> Iterator[PositionEncoding]:
    """The encoding of each module that has one, in the order of the model's modules."""
    places = torch.arange(length)
    for path, module in model.named_modules():
        match module:
            case SinusoidPositions():
                yield PositionEncoding("sinusoid", (path,), places, module(places))
            case LearnedPositions():
                known = places[: module.limit]
                vectors = module.table.weight.detach().float().cpu()[known + module.offset]
                yield PositionEncoding("learned", (path,), known, vectors)
            case RelativeKeys():
                distances = torch.arange(-module.back, module.ahead + 1)
                vectors = module.vectors.detach().float().cpu()
                yield PositionEncoding("relative", (path,), distances, vectors)
            case SelfAttention(rotary=True):
                num_pairs = module.out.in_features // module.heads // 2
                pairs = torch.tensor([1.0, 0.0]).repeat(num_pairs)  # (K,)
                vectors = apply_rotary(pairs.expand(length, -1), places)  # (P, K)
                yield PositionEncoding("rotary", (path,), places, vectors)


def plot_positions(encodings: Sequence[PositionEncoding], *, theme: ThemeName = "light") -> Figure:
    """A row for each encoding: its vectors, their cosines by pairs, and by distance."""
    if not encodings:
        raise ValueError("there are no encodings to draw")
    width = VECTOR_PANEL_WIDTH + 2 * (PANEL_GAP + PANEL_SIZE)
    figure = InchFigure(width, len(encodings) * (PANEL_SIZE + ROW_GAP) - ROW_GAP, theme)
    for number, encoding in enumerate(encodings):
        top = number * (PANEL_SIZE + ROW_GAP)
        vectors = figure.add_panel(0, top, VECTOR_PANEL_WIDTH, PANEL_SIZE)
        pairs = figure.add_panel(VECTOR_PANEL_WIDTH + PANEL_GAP, top, PANEL_SIZE, PANEL_SIZE)
        distances = figure.add_panel(width - PANEL_SIZE, top, PANEL_SIZE, PANEL_SIZE)
        _draw_vectors(figure, vectors, encoding)
        _draw_similarity(figure, pairs, encoding)
        _draw_similarity_by_distance(figure, distances, encoding)
        style = {"color": figure.theme.foreground, "transform": vectors.transAxes}
        figure.write(vectors, 0, HEADING_Y, describe_encoding(encoding), 11, **style)
    return figure


def describe_encoding(encoding: PositionEncoding) -> str:
    """The kind of an encoding, its modules and its size."""
    names = ", ".join(encoding.modules)
    if len(encoding.modules) > 2:
        names = f"{encoding.modules[0]} and {len(encoding.modules) - 1} more"
    count, width = encoding.vectors.shape
    what = "distances" if encoding.kind == "relative" else "positions"
    return f"{encoding.kind}: {names} ({count} {what}, {width} wide)"


def _draw_vectors(figure: InchFigure, axes: Axes, encoding: PositionEncoding) -> None:
    peak = float(encoding.vectors.abs().max())
    scale = colour_scale(figure.theme.diverging, peak, -peak)
    figure.draw_heatmap(axes, encoding.vectors, scale, gaps=False)
    axes.set_yticks(*_position_ticks(encoding))
    axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    figure.label_axes(axes, "dimension", _axis_label(encoding))
    caption = f"the vectors, from −{peak:.2g} (blue) to {peak:.2g} (orange)"
    figure.write(axes, 0, CAPTION_Y, caption, transform=axes.transAxes)


def _draw_similarity(figure: InchFigure, axes: Axes, encoding: PositionEncoding) -> None:
    scale = colour_scale(figure.theme.diverging, 1, -1)
    figure.draw_heatmap(axes, encoding.similarity(), scale, gaps=False)
    axes.set_yticks(*_position_ticks(encoding))
    axes.set_xticks(*_position_ticks(encoding))
    figure.label_axes(axes, _axis_label(encoding))
    figure.write(axes, 0, CAPTION_Y, "cosine between two", transform=axes.transAxes)


def _draw_similarity_by_distance(
    figure: InchFigure, axes: Axes, encoding: PositionEncoding
) -> None:
    """The mean cosine at each distance as a line, and its range as an area."""
    mean, least, most = similarity_by_distance(encoding.similarity())
    distances, theme = range(len(mean)), figure.theme
    axes.fill_between(distances, least, most, color=theme.border, alpha=0.5, linewidth=0)
    axes.plot(distances, mean, color=theme.accent, linewidth=1.5)
    axes.axhline(0, color=theme.border, linewidth=0.6)
    axes.set(xlim=(0, max(len(mean) - 1, 1)), ylim=(min(-0.3, float(least.min())), 1.05))
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    figure.label_axes(axes, "apart by")
    figure.write(axes, 0, CAPTION_Y, "cosine by distance", transform=axes.transAxes)


def _axis_label(encoding: PositionEncoding) -> str:
    return "distance to the key" if encoding.kind == "relative" else "position"


def _position_ticks(encoding: PositionEncoding) -> tuple[list[float], list[str]]:
    """Places of ticks on the rows or columns of a map, and the positions that they name."""
    positions = encoding.positions.tolist()
    tick_step = next(step for step in TICK_STEPS if len(positions) <= 8 * step)
    named = [place for place, position in enumerate(positions) if position % tick_step == 0]
    names = [str(positions[place]).replace("-", "−") for place in named]  # a minus sign
    return [place + 0.5 for place in named], names
