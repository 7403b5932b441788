"""Score functions between queries and keys: the part in which the papers differ.

Queries are (..., T, K), keys (..., S, K), scores (..., T, S). What depends on the keys alone is
done once by `prepare`, so that a decoder does not repeat it at each step.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn

ScoreName = Literal["dot", "scaled_dot", "multiplicative", "additive"]


class ScoreFunction(nn.Module, ABC):
    """A function of queries and prepared keys."""

    normalized = True
    """Whether a softmax follows; without one the scores are the weights, of either sign."""

    def prepare(self, keys: Tensor) -> Tensor:
        """The keys (..., S, K) in the form that `forward` takes."""
        return keys

    def scale(self, width: int) -> float | None:
        """c if scores are c times the dot product, as a fused kernel computes them; else None."""
        return None

    @abstractmethod
    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Scores (..., T, S)."""


class DotScore(ScoreFunction):
    """q · k (Luong et al. 2015, *dot*)."""

    def scale(self, width: int) -> float:
        return 1.0

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        return queries @ keys.transpose(-2, -1)  # (..., T, S)


class ScaledDotScore(ScoreFunction):
    """q · k / √K: of unit variance when queries and keys are (Vaswani et al. 2017, equation 1)."""

    def scale(self, width: int) -> float:
        return 1 / math.sqrt(width)

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        return queries @ keys.transpose(-2, -1) * self.scale(queries.shape[-1])  # (..., T, S)


class MultiplicativeScore(DotScore):
    """qᵀ W k (Luong et al. 2015, *general*): a dot product with the keys projected by W."""

    def __init__(self, query_width: int, key_width: int) -> None:
        super().__init__()
        self.turn = nn.Linear(key_width, query_width, bias=False)

    def prepare(self, keys: Tensor) -> Tensor:
        projected: Tensor = self.turn(keys)
        return projected


class AdditiveScore(ScoreFunction):
    """vᵀ tanh(W q + U k) (Bahdanau et al. 2015, appendix A.1.2; Luong et al. 2015, *concat*)."""

    def __init__(self, query_width: int, key_width: int, hidden: int) -> None:
        super().__init__()
        self.query = nn.Linear(query_width, hidden, bias=False)
        self.key = nn.Linear(key_width, hidden, bias=False)
        self.energy = nn.Linear(hidden, 1, bias=False)

    def prepare(self, keys: Tensor) -> Tensor:
        prepared: Tensor = self.key(keys)
        return prepared

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        pairs = self.query(queries)[..., :, None, :] + keys[..., None, :, :]  # (..., T, S, hidden)
        scores: Tensor = self.energy(torch.tanh(pairs)).squeeze(-1)  # (..., T, S)
        return scores


class TanhProductScore(AdditiveScore):
    """Σ_d v_d tanh(W q)_d tanh(U k)_d (Shazeer et al. 2017, appendix G): one matrix product."""

    def prepare(self, keys: Tensor) -> Tensor:
        return torch.tanh(self.key(keys)) * self.energy.weight[0]

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        return torch.tanh(self.query(queries)) @ keys.transpose(-2, -1)  # (..., T, S)


class PositionScore(ScoreFunction):
    """w_s: a learned weight for each of the last `positions` keys; query and key are unused.

    Not normalized: the weights do not sum to 1, and some may be negative.
    """

    normalized = False

    def __init__(self, positions: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(positions))
        bound = math.sqrt(6 / (positions + 1))  # Xavier, for a matrix of one column
        nn.init.uniform_(self.weight, -bound, bound)

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        scores = last_positions(self.weight, keys.shape[-2])  # (S,)
        return scores.expand(*queries.shape[:-1], -1)  # (..., T, S)


class TanhPositionScore(ScoreFunction):
    """tanh(wᵀ k + b_s): b has a number for each of the last `positions` keys; the query is unused.

    https://machinelearningmastery.com/adding-a-custom-attention-layer-to-recurrent-neural-network-in-keras
    """

    def __init__(self, key_width: int, positions: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(key_width))
        self.bias = nn.Parameter(torch.zeros(positions))
        nn.init.normal_(self.weight, std=0.05)

    def prepare(self, keys: Tensor) -> Tensor:
        return torch.tanh(keys @ self.weight + last_positions(self.bias, keys.shape[-2]))[..., None]

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        return keys.transpose(-2, -1).expand(*queries.shape[:-1], -1)  # (..., S, 1) -> (..., T, S)


def last_positions(numbers: Tensor, keys: int) -> Tensor:
    """The last `keys` of `numbers` (P,): the last number belongs to the last key."""
    if keys > len(numbers):
        raise ValueError(f"there are weights for {len(numbers)} positions, got {keys} keys")
    return numbers[len(numbers) - keys :]  # (S,)


def build_score(name: ScoreName, query_width: int, key_width: int, hidden: int) -> ScoreFunction:
    """The score function called `name`; `hidden` is the width inside the additive one."""
    if name in ("dot", "scaled_dot") and query_width != key_width:
        raise ValueError(f"{name} needs queries as wide as keys, got {query_width=} {key_width=}")
    builders: dict[ScoreName, Callable[[], ScoreFunction]] = {
        "dot": DotScore,
        "scaled_dot": ScaledDotScore,
        "multiplicative": lambda: MultiplicativeScore(query_width, key_width),
        "additive": lambda: AdditiveScore(query_width, key_width, hidden),
    }
    return builders[name]()
