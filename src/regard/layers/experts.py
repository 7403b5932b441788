"""Mixture of experts: each position is routed to a few of many feed-forward layers (Shazeer et al.
2017).
"""

import math
from typing import NamedTuple, Self

import torch
import torch.nn.functional as F
from pydantic import Field, NonNegativeFloat, model_validator
from torch import Tensor, nn

from regard.kernels.dispatch import is_traced
from regard.kernels.dropout import Dropout
from regard.layers.transformer_parts import ActivationName, activate
from regard.settings import Settings
from regard.types import Routing, Site

MIN_NOISE_STD = 0.01
"""Added to the standard deviation of the noise: without noise, the gradient of P would be 0 / 0."""


class ExpertsSettings(Settings):
    """A layer of experts and the gate before it."""

    count: int = Field(default=8, ge=3, le=131_072)
    """Number of experts in a layer."""
    top_k: int = Field(default=2, ge=2)
    """Number of experts for each token, the paper's k; fewer than `count`. A single one would
    always get all the weight, and the gate would never learn which expert is right."""
    noise: bool = True
    """Whether noise of a learned scale is added to the gate's logits in training."""
    importance_weight: NonNegativeFloat = 0.01
    """Weight of the loss for uneven importance: the experts' sums of gate weights
    (w_importance)."""
    load_weight: NonNegativeFloat = 0.01
    """Weight of the loss for uneven load: the numbers of tokens per expert (w_load); it needs
    `noise`."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.top_k >= self.count:
            raise ValueError(
                f"top_k must be less than count, or there is nothing to choose; got top_k "
                f"{self.top_k} and count {self.count}"
            )
        if self.load_weight and not self.noise:
            raise ValueError(
                f"load_weight {self.load_weight} has no effect without noise, which alone makes "
                "the load differentiable; set load_weight to 0 or noise to true"
            )
        return self


class GateOutput(NamedTuple):
    """The experts of each of N positions."""

    experts: Tensor  # (N, k) indices
    weights: Tensor  # (N, k) of their outputs; each row sums to 1
    selection_probs: Tensor  # (N, E) of each expert to be chosen


class ExpertsOutput(NamedTuple):
    """The output of a layer of experts."""

    outputs: Tensor  # (..., D)
    routings: tuple[Routing, ...]  # of this layer; none in a decoding step


class Gate(nn.Module):
    """Noisy top-k gating (section 2.1 and appendix A).

        H(x)_i = (x W_g)_i + N(0, 1) · softplus((x W_noise)_i)
        G(x) = softmax over the k largest of H(x), 0 elsewhere
        P(x, i) = Φ(((x W_g)_i - the k-th largest of the other H(x)) / softplus((x W_noise)_i))

    P is the probability that expert i is chosen if its own noise is drawn again; unlike the choice,
    it is differentiable. Outside of training there is no noise, and P is 1 or 0. `MIN_NOISE_STD`,
    added to each softplus, is not in the paper. Without autocast: rounding changes the choice.
    """

    def __init__(self, width: int, count: int, top_k: int, *, noise: bool) -> None:
        super().__init__()
        self.top_k = top_k
        self.clean = nn.Parameter(torch.zeros(count, width))  # W_g
        self.noise = nn.Parameter(torch.zeros(count, width)) if noise else None  # W_noise
        if not noise:  # with zeros, all tokens would choose the same experts
            nn.init.xavier_uniform_(self.clean)

    def forward(self, x: Tensor) -> GateOutput:
        """The experts of each row of `x` (N, D)."""
        with torch.autocast(x.device.type, enabled=False):
            x = x.to(self.clean.dtype)
            clean = F.linear(x, self.clean)  # (N, E)
            if self.noise is None or not self.training:
                values, experts = clean.topk(self.top_k)  # (N, k)
                selection_probs = torch.zeros_like(clean).scatter(1, experts, 1.0)  # (N, E)
                return GateOutput(experts, values.softmax(-1), selection_probs)
            std = F.softplus(F.linear(x, self.noise)) + MIN_NOISE_STD  # (N, E)
            noisy = clean + torch.randn_like(clean) * std  # (N, E)
            values, experts = noisy.topk(self.top_k + 1)  # (N, k + 1)
            last_chosen, first_left = values[:, -2:].chunk(2, dim=1)  # (N, 1) each
            threshold = torch.where(noisy > first_left, first_left, last_chosen)  # (N, E)
            selection_probs = torch.special.ndtr((clean - threshold) / std)  # (N, E)
            return GateOutput(experts[:, :-1], values[:, :-1].softmax(-1), selection_probs)


class Experts(nn.Module):
    """E feed-forward layers D -> hidden -> D, without biases, behind a gate.

        y = Σ_i G(x)_i E_i(x),      E_i(x) = W_i relu(V_i x)

    No position is dropped, however uneven the choice: the output for a sentence must not depend on
    the others of a batch. A loss keeps the choice balanced (section 4; CV: `squared_variation`):

        w_importance · CV(Σ_x G(x))² + w_load · CV(Σ_x P(x))²
    """

    def __init__(
        self,
        settings: ExpertsSettings,
        width: int,
        hidden: int,
        *,
        activation: ActivationName = "relu",
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.importance_weight, self.load_weight = settings.importance_weight, settings.load_weight
        self.count, self.activation = settings.count, activation
        self.gate = Gate(width, settings.count, settings.top_k, noise=settings.noise)
        self.matrices = 2 if activation == "swiglu" else 1
        self.inner = nn.Parameter(torch.empty(settings.count, width, self.matrices * hidden))  # V
        self.outer = nn.Parameter(torch.empty(settings.count, hidden, width))  # W
        self.dropout = Dropout(dropout)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Xavier for each matrix of each expert separately."""
        for stacked in (*self.inner.chunk(self.matrices, dim=-1), self.outer):
            bound = math.sqrt(6 / (stacked.shape[1] + stacked.shape[2]))
            nn.init.uniform_(stacked, -bound, bound)

    def forward(self, x: Tensor, mask: Tensor | None, *, site: Site) -> ExpertsOutput:
        """(..., D) -> (..., D); positions where `mask` (...), if given, is False yield zeros."""
        # (N, D), one view for gate and experts, so that their gradients are summed before those of
        # other uses of `x`: another order would change the last bits of trained weights.
        rows = x.reshape(-1, x.shape[-1])
        gate = self.gate(rows)
        experts = gate.experts  # (N, k)
        if mask is not None:
            experts = experts.masked_fill(~mask.view(-1, 1), self.count)  # E: no expert
        expert_index = experts.flatten()  # (N * k,)
        outputs = self._combine(rows, gate, expert_index).view_as(x)
        if site.step is not None:
            return ExpertsOutput(outputs, ())
        tokens = self._one_hot(expert_index).sum(0)  # (E,)
        loss = self._balance_loss(gate, mask)
        return ExpertsOutput(outputs, (Routing(site, loss, tokens / tokens.sum()),))

    def dispatch_by_expert(self, rows: Tensor, expert_index: Tensor) -> Tensor:
        """The output of each row's expert, with one product per expert: (R, D) -> (R, D).

        `expert_index` (R,) is E for rows without expert: zeros. For CPUs, as the host needs counts.
        """
        order = expert_index.argsort(stable=True)  # (R,)
        sizes = self._one_hot(expert_index).sum(0).tolist()
        shares = torch.split(rows[order], [*sizes, len(rows) - sum(sizes)])
        outputs = [
            self._expert_forward(share, inner, outer)
            for share, inner, outer in zip(shares, self.inner, self.outer, strict=False)
        ]
        zeros = torch.zeros_like(shares[-1], dtype=outputs[0].dtype)
        together = torch.cat([*outputs, zeros])  # (R, D)
        return torch.empty_like(together).index_copy(0, order, together)

    def dispatch_in_blocks(self, rows: Tensor, expert_index: Tensor) -> Tensor:
        """`dispatch_by_expert` without a synchronization with the device.

        The rows of each expert fill blocks of M rows, the last partly; E + (R - E) / M blocks are
        always enough. Padding wastes up to E · M rows, and each of about R / M blocks copies its
        expert's matrices: M balances both.
        """
        count, device = len(expert_index), expert_index.device
        size = 8 * math.ceil(math.sqrt(count / self.count))  # M
        blocks = self.count + max(0, count - self.count) // size
        one_hot = self._one_hot(expert_index)  # (R, E)
        needed = (one_hot.sum(0) + size - 1) // size  # (E,) blocks of each expert
        ends = needed.cumsum(0)  # (E,)
        block_expert = torch.searchsorted(ends, torch.arange(blocks, device=device), right=True)
        block_expert = block_expert.clamp_max(self.count - 1)  # (blocks,); unused ones hold zeros
        clamped = expert_index.clamp_max(self.count - 1)  # (R,)
        rank = one_hot.cumsum(0).gather(1, clamped[:, None])[:, 0] - 1  # (R,) within its expert
        slot = (ends - needed)[clamped] * size + rank  # (R,)
        slot = torch.where(expert_index < self.count, slot, blocks * size)  # one row for the others
        filled = rows.new_zeros(blocks * size + 1, rows.shape[1]).index_copy(0, slot, rows)
        outputs = self._expert_forward(
            filled[:-1].view(blocks, size, -1),  # (blocks, M, D)
            self.inner.index_select(0, block_expert),
            self.outer.index_select(0, block_expert),
        ).flatten(0, 1)
        return F.pad(outputs, (0, 0, 0, 1)).index_select(0, slot)  # (R, D)

    def dispatch_to_all(self, rows: Tensor, expert_index: Tensor) -> Tensor:
        """`dispatch_by_expert` for a traced graph, which cannot loop over counts: every expert
        computes every row.
        """
        outputs = self._expert_forward(rows, self.inner, self.outer)  # (E, R, D)
        chosen = self._one_hot(expert_index).transpose(-2, -1)[..., None]  # (E, R, 1)
        return torch.where(chosen, outputs, 0.0).sum(0)  # (R, D)

    def _combine(self, x: Tensor, gate: GateOutput, expert_index: Tensor) -> Tensor:
        """y (N, D) of `x` (N, D)."""
        chosen = gate.experts.shape[1]
        rows = x[:, None].expand(-1, chosen, -1).flatten(0, 1)  # (N * k, D)
        dispatch = self.dispatch_by_expert if x.device.type == "cpu" else self.dispatch_in_blocks
        if is_traced():
            dispatch = self.dispatch_to_all
        outputs = torch.unflatten(dispatch(rows, expert_index), 0, (-1, chosen))  # (N, k, D)
        return (gate.weights[..., None] * outputs).sum(1).to(outputs.dtype)  # (N, D)

    def _expert_forward(self, x: Tensor, inner: Tensor, outer: Tensor) -> Tensor:
        """E_i(x) (..., M, D) of rows `x` (..., M, D) with the matrices of their expert."""
        y: Tensor = self.dropout(activate(x @ inner, self.activation)) @ outer
        return y

    def _one_hot(self, expert_index: Tensor) -> Tensor:
        """Whether a row belongs to an expert: (R,) -> (R, E)."""
        return expert_index[:, None] == torch.arange(self.count, device=expert_index.device)

    def _balance_loss(self, gate: GateOutput, mask: Tensor | None) -> Tensor:
        """The loss of the class docstring: ()."""
        gates = torch.zeros_like(gate.selection_probs).scatter(1, gate.experts, gate.weights)
        real = None if mask is None else mask.view(-1, 1)  # (N, 1)
        importance, load = (
            squared_variation((x if real is None else torch.where(real, x, 0.0)).sum(0))
            for x in (gates, gate.selection_probs)  # (N, E)
        )
        return self.importance_weight * importance + self.load_weight * load


def squared_variation(x: Tensor) -> Tensor:
    """CV(x)², the variance of `x` (E,) divided by its squared mean: ()."""
    return x.var(correction=0) / x.mean().square()
