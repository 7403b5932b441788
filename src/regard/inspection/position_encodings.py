"""What a model is told about positions, read out of its modules."""

from collections.abc import Iterator
from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.multihead import SelfAttention
from regard.attention.positions import (
    LearnedPositions,
    RelativeKeys,
    SinusoidPositions,
    apply_rotary,
)
from regard.errors import SettingsError


class PositionEncoding(NamedTuple):
    """A vector for each position, or for each distance."""

    kind: Literal["sinusoid", "learned", "relative", "rotary"]
    where: tuple[str, ...]
    """The modules that have exactly these vectors, by their path in the model."""
    places: Tensor  # (P,) positions from 0 on; of relative ones, distances from query to key
    vectors: Tensor  # (P, D)

    def similarity(self) -> Tensor:
        """The cosine of the angle between every two vectors: (P, P)."""
        directions = F.normalize(self.vectors, dim=-1)  # (P, D)
        return directions @ directions.mT


class SimilarityByDistance(NamedTuple):
    """How similar vectors are that stand so far apart, for each distance from 0 on."""

    mean: Tensor  # (P,)
    least: Tensor  # (P,)
    most: Tensor  # (P,)


def read_positions(model: nn.Module, length: int) -> tuple[PositionEncoding, ...]:
    """What the modules of `model` know of positions up to `length`; modules that agree are one.

    Rotary positions turn pairs of numbers: shown is what becomes of the pair (1, 0).
    """
    found: list[PositionEncoding] = []
    for encoding in _find_encodings(model, length):
        for place, other in enumerate(found):
            if other.kind == encoding.kind and torch.equal(other.vectors, encoding.vectors):
                found[place] = other._replace(where=(*other.where, *encoding.where))
                break
        else:
            found.append(encoding)
    if not found:
        raise SettingsError(
            f"{type(model).__name__}: this model is not told positions; a recurrent or dilated "
            "one reads tokens in their order"
        )
    return tuple(found)


def similarity_by_distance(similarity: Tensor) -> SimilarityByDistance:
    """How the similarity (P, P) falls with the distance."""
    lines = [similarity.diagonal(distance) for distance in range(len(similarity))]
    return SimilarityByDistance(
        torch.stack([line.mean() for line in lines]),
        torch.stack([line.min() for line in lines]),
        torch.stack([line.max() for line in lines]),
    )


def _find_encodings(model: nn.Module, length: int) -> Iterator[PositionEncoding]:
    """Of each module that has one, in the order of the model's modules."""
    places = torch.arange(length)
    for path, module in model.named_modules():
        match module:
            case SinusoidPositions():
                yield PositionEncoding("sinusoid", (path,), places, module(places))
            case LearnedPositions():
                known = places[: module.limit]
                yield PositionEncoding(
                    "learned", (path,), known, _to_cpu_float(module.table.weight)[known]
                )
            case RelativeKeys():
                distances = torch.arange(-module.back, module.ahead + 1)
                yield PositionEncoding(
                    "relative", (path,), distances, _to_cpu_float(module.vectors)
                )
            case SelfAttention(rotary=True):
                pairs = torch.tensor([1.0, 0.0]).repeat(
                    module.out.in_features // module.heads // 2
                )  # (K,)
                yield PositionEncoding(
                    "rotary", (path,), places, apply_rotary(pairs.expand(length, -1), places)
                )


def _to_cpu_float(learned: Tensor) -> Tensor:
    return learned.detach().float().cpu()
