"""Muon: matrices move along orthogonalized momentum, everything else by AdamW (Jordan et al. 2024,
kellerjordan.github.io/posts/muon).

torch has the same update, one matrix after another with a learning rate that the host must know;
here matrices of one shape go through it together, and a CUDA graph can replay it.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

MOMENTUM = 0.95
ITERATIONS = 5
COEFFICIENTS = 3.4445, -4.7750, 2.0315
"""Of an iteration X ← a X + (b G + c G²) X with G = X Xᵀ: singular values come near to 1 fast."""
ADAM_RMS = 0.2
"""About the root mean square of AdamW's updates in units of the learning rate: with updates as
large, matrices take the same rate and weight decay (Liu et al. 2025, Muon is Scalable)."""
EPSILON = 1e-7

ParameterGroup = dict[str, Any]


class Muon(torch.optim.Optimizer):
    """Momentum B ← μ B + (1 - μ) G of a matrix W with gradient G; then

        W ← (1 - η λ) W - 0.2 √max(rows, columns) η orthogonalized((1 - μ) G + μ B)

    with the learning rate η and the weight decay λ of the matrix's group.
    """

    def __init__(
        self,
        matrices: Sequence[ParameterGroup],
        others: Sequence[ParameterGroup],
        *,
        lr: float,
        **adam: Any,
    ) -> None:
        """Groups of matrices; and groups of parameters that AdamW changes, with its options."""
        super().__init__(list(matrices), {"lr": lr})
        self.matrix_groups = list(self.param_groups)
        self.adam = torch.optim.AdamW(list(others), lr=lr, **adam)
        # One state and one list of the very same groups, for whoever sets rates or saves states.
        self.param_groups += self.adam.param_groups
        self.state = self.adam.state

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Change all parameters that have gradients."""
        for group in self.matrix_groups:
            by_shape = defaultdict[torch.Size, list[Tensor]](list)
            for matrix in group["params"]:
                if matrix.grad is not None:
                    by_shape[matrix.shape].append(matrix)
            for matrices in by_shape.values():
                self._update(matrices, group["lr"], group["weight_decay"])
        self.adam.step()

    def _update(self, matrices: list[Tensor], lr: float | Tensor, decay: float) -> None:
        """Change matrices (R, C) of one shape."""
        grads = [matrix.grad for matrix in matrices if matrix.grad is not None]
        for matrix in matrices:
            if not self.state[matrix]:
                self.state[matrix]["momentum_buffer"] = torch.zeros_like(matrix)
        momenta = [self.state[matrix]["momentum_buffer"] for matrix in matrices]
        torch._foreach_lerp_(momenta, grads, 1 - MOMENTUM)
        ahead = torch._foreach_lerp(grads, momenta, MOMENTUM)
        rows, columns = matrices[0].shape
        updates = orthogonalize(torch.stack(list(ahead)))  # (M, R, C)
        updates = updates.to(matrices[0].dtype) * (lr * (ADAM_RMS * math.sqrt(max(rows, columns))))
        if decay:
            torch._foreach_mul_(matrices, 1 - lr * decay)
        torch._foreach_sub_(matrices, list(updates.unbind()))


def orthogonalize(x: Tensor) -> Tensor:
    """Near U Vᵀ for each matrix U S Vᵀ of `x` (M, R, C), by Newton-Schulz iterations; in bfloat16
    on a GPU.
    """
    a, b, c = COEFFICIENTS
    if x.is_cuda:
        x = x.bfloat16()
    tall = x.shape[1] > x.shape[2]
    x = x.mT if tall else x
    x = x / (torch.linalg.vector_norm(x, dim=(1, 2), keepdim=True) + EPSILON)
    for _ in range(ITERATIONS):
        gram = x @ x.mT  # (M, R, R)
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.mT if tall else x
