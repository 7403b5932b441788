"""Muon: matrices move along orthogonalized momentum, everything else by AdamW (Jordan et al. 2024,
kellerjordan.github.io/posts/muon).

torch has the same update for one matrix after another, with a learning rate that the host must
know; here matrices of one shape are updated together, and a CUDA graph can replay the update.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

MOMENTUM = 0.95
ITERATIONS = 5
COEFFICIENTS = 3.4445, -4.7750, 2.0315
"""The a, b, c of the iteration X ← a X + (b G + c G²) X with G = X Xᵀ, which quickly brings
singular values near 1."""
ADAM_RMS = 0.2
"""The approximate root mean square of AdamW's updates, in units of the learning rate. With updates
of this size, matrices can use the same rate and weight decay (Liu et al. 2025, Muon is
Scalable)."""
EPSILON = 1e-7

ParameterGroup = dict[str, Any]


class Muon(torch.optim.Optimizer):
    """Momentum B ← μ B + (1 - μ) G of a matrix W with gradient G; then

        W ← (1 - η λ) W - 0.2 √max(rows, columns) η orthogonalized((1 - μ) G + μ B)

    with the learning rate η and the weight decay λ of the matrix's group. Where a weight holds
    several matrices, one below the other, each is orthogonalized separately.
    """

    def __init__(
        self,
        matrices: Sequence[ParameterGroup],
        others: Sequence[ParameterGroup],
        rows: Mapping[Tensor, Sequence[int]],
        *,
        lr: float,
        **adam: Any,
    ) -> None:
        """Set up with groups of matrices; groups of parameters for AdamW, with its options; and,
        for each weight among the matrices, the numbers of rows of the matrices that it holds.
        """
        super().__init__(list(matrices), {"lr": lr})
        self.matrix_groups, self.rows = list(self.param_groups), rows
        self.adam = torch.optim.AdamW(list(others), lr=lr, **adam)
        # The same groups in one list, with one state, for code that sets rates or saves states.
        self.param_groups += self.adam.param_groups
        self.state = self.adam.state

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Update all parameters that have gradients."""
        for group in self.matrix_groups:
            matrices = [matrix for matrix in group["params"] if matrix.grad is not None]
            if matrices:
                self._update(matrices, group["lr"], group["weight_decay"])
        self.adam.step()

    def _update(self, matrices: list[Tensor], lr: float | Tensor, decay: float) -> None:
        grads = [matrix.grad for matrix in matrices if matrix.grad is not None]
        for matrix in matrices:
            if not self.state[matrix]:
                self.state[matrix]["momentum_buffer"] = torch.zeros_like(matrix)
        momenta = [self.state[matrix]["momentum_buffer"] for matrix in matrices]
        torch._foreach_lerp_(momenta, grads, 1 - MOMENTUM)
        ahead = torch._foreach_lerp(grads, momenta, MOMENTUM)
        if decay:
            torch._foreach_mul_(matrices, 1 - lr * decay)
        by_shape = defaultdict[torch.Size, list[tuple[Tensor, Tensor]]](list)
        for matrix, direction in zip(matrices, ahead, strict=True):
            split = (torch.split(x, list(self.rows[matrix])) for x in (matrix, direction))
            for part, turn in zip(*split, strict=True):
                wide = turn.mT if turn.shape[0] > turn.shape[1] else turn
                by_shape[wide.shape].append((part, wide))
        for (_, columns), pairs in by_shape.items():
            parts, directions = zip(*pairs, strict=True)
            updates = orthogonalize(torch.stack(directions)).to(parts[0].dtype)  # (M, R, C)
            updates = updates * (lr * (ADAM_RMS * math.sqrt(columns)))
            torch._foreach_sub_(parts, [_shaped(x, p) for x, p in zip(updates, parts, strict=True)])


def _shaped(update: Tensor, part: Tensor) -> Tensor:
    return update if update.shape == part.shape else update.mT.contiguous()


def orthogonalize(x: Tensor) -> Tensor:
    """Near U Vᵀ for each matrix U S Vᵀ of `x` (M, R, C) with R ≤ C, by Newton-Schulz iterations, in
    autocast's precision, if any.
    """
    a, b, c = COEFFICIENTS
    if torch.is_autocast_enabled(x.device.type):
        x = x.to(torch.get_autocast_dtype(x.device.type))
    x = x / (torch.linalg.vector_norm(x, dim=(1, 2), keepdim=True) + EPSILON)
    for _ in range(ITERATIONS):
        gram = x @ x.mT  # (M, R, R)
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x
