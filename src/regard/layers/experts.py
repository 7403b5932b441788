"""Many feed-forward layers, of which each position goes through a few (Shazeer et al. 2017)."""

import math
from typing import NamedTuple, Self

import torch
import torch.nn.functional as F
from pydantic import Field, NonNegativeFloat, model_validator
from torch import Tensor, nn

from regard.layers.dropout import Dropout
from regard.layers.feed_forward import ActivationName, activate
from regard.settings import Settings
from regard.types import Routing, Site

MIN_NOISE_STD = 0.01
"""The noise never dies: a chance that has become certain would have no derivative, but 0 / 0."""


class ExpertsSettings(Settings):
    """A layer of experts and the gate before it."""

    count: int = Field(default=8, ge=3, le=131_072)
    """Experts of a layer."""
    top_k: int = Field(default=2, ge=2)
    """Experts that each token goes through, the paper's k; fewer than there are. One alone would
    get all the weight, whichever it is, and the gate never learn which one is right."""
    noise: bool = True
    """Whether, in training, noise of a learned size takes part in the choice."""
    importance_weight: NonNegativeFloat = 0.01
    """How much it adds to the loss when some experts are trusted more than others."""
    load_weight: NonNegativeFloat = 0.01
    """How much it adds when some experts get more tokens than others; it learns from the noise."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.top_k >= self.count:
            raise ValueError(
                f"top_k must be less than count, or there is nothing to choose; got top_k "
                f"{self.top_k} and count {self.count}"
            )
        if self.load_weight and not self.noise:
            raise ValueError(
                f"load_weight {self.load_weight} has no effect without noise, through which alone "
                "the load can be learned; set load_weight to 0 or noise to true"
            )
        return self


class GateOutput(NamedTuple):
    """Which experts each of N positions goes through, and how it came to that."""

    experts: Tensor  # (N, k)
    weights: Tensor  # (N, k) of their answers; each row sums to 1
    selection_probs: Tensor  # (N, E) of each expert to be chosen


class ExpertsOutput(NamedTuple):
    """What a layer of experts made of a batch."""

    outputs: Tensor  # (B, T, D)
    routing: Routing


class Gate(nn.Module):
    """Noisy top-k gating (section 2.1 and appendix A).

        H(x)_i = (x W_g)_i + N(0, 1) · softplus((x W_noise)_i)
        G(x) = softmax over the k largest of H(x), 0 elsewhere
        P(x, i) = Φ(((x W_g)_i - the k-th largest of the other H(x)) / softplus((x W_noise)_i))

    P is the chance of expert i, were its own noise drawn again: unlike the choice itself, it can
    be differentiated. Outside of training there is no noise, and a chance is 1 or 0. Both matrices
    begin at zero, where all experts are alike and noise decides; without noise W_g is drawn, or
    all tokens would begin, and stay, with the same experts. To each softplus a hundredth is added,
    which the paper does not have: see `LEAST_SPREAD`. Autocast does not touch the gate: rounding
    would choose other experts.
    """

    def __init__(self, width: int, count: int, top_k: int, *, noise: bool) -> None:
        super().__init__()
        self.top_k = top_k
        self.clean = nn.Parameter(torch.zeros(count, width))  # W_g
        self.noise = nn.Parameter(torch.zeros(count, width)) if noise else None  # W_noise
        if not noise:
            nn.init.xavier_uniform_(self.clean)

    def forward(self, x: Tensor) -> GateOutput:
        """The choice of each row of `x` (N, D)."""
        with torch.autocast(x.device.type, enabled=False):
            x = x.to(self.clean.dtype)
            clean = F.linear(x, self.clean)  # (N, E)
            if self.noise is None or not self.training:
                values, experts = clean.topk(self.top_k)  # (N, k)
                selection_probs = torch.zeros_like(clean).scatter(1, experts, 1.0)  # (N, E)
                return GateOutput(experts, values.softmax(-1), selection_probs)
            spread = F.softplus(F.linear(x, self.noise)) + MIN_NOISE_STD  # (N, E)
            noisy = clean + torch.randn_like(clean) * spread  # (N, E)
            values, experts = noisy.topk(self.top_k + 1)  # (N, k + 1)
            kth_value, next_value = values[:, -2:].chunk(
                2, dim=1
            )  # (N, 1): the last in, the first out
            threshold = torch.where(noisy > next_value, next_value, kth_value)  # (N, E)
            selection_probs = torch.special.ndtr((clean - threshold) / spread)  # (N, E)
            return GateOutput(experts[:, :-1], values[:, :-1].softmax(-1), selection_probs)


class Experts(nn.Module):
    """E feed-forward layers D -> hidden -> D, without biases, behind a gate.

        y = Σ_i G(x)_i E_i(x),      E_i(x) = W_i relu(V_i x)

    No position is dropped, however uneven the choice: what becomes of a sentence must not depend
    on its neighbours in a batch. The loss that comes with y keeps the choice even (section 4):

        w_importance · CV(Σ_x G(x))² + w_load · CV(Σ_x P(x))²

    where CV is the standard deviation over the experts in units of their mean.
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
        """Xavier for each matrix of each expert by itself."""
        for stacked in (*self.inner.chunk(self.matrices, dim=-1), self.outer):
            bound = math.sqrt(6 / (stacked.shape[1] + stacked.shape[2]))
            nn.init.uniform_(stacked, -bound, bound)

    def forward(self, x: Tensor, mask: Tensor, *, site: Site) -> ExpertsOutput:
        """(B, T, D) -> (B, T, D), and how the positions where `mask` (B, T) is True were shared.

        The other positions go to no expert and count for nothing; they come out as zeros.
        """
        rows, real = x.flatten(0, 1), mask.flatten()  # (N, D), (N,)
        gate_output = self.gate(rows)
        expert_index = self._expert_index(gate_output, real)  # (N * k,)
        outputs = self._combine(rows, gate_output, expert_index).view_as(x)
        tokens_per_expert = self._one_hot(expert_index).sum(0)  # (E,)
        return ExpertsOutput(
            outputs,
            Routing(
                site,
                self._balance_loss(gate_output, real),
                tokens_per_expert / tokens_per_expert.sum(),
            ),
        )

    def step(self, x: Tensor) -> Tensor:
        """(B, K, D) -> (B, K, D), all positions real; nobody asks how they were routed."""
        rows = x.flatten(0, 1)  # (N, D)
        gate_output = self.gate(rows)
        return self._combine(rows, gate_output, gate_output.experts.flatten()).view_as(x)

    def dispatch_by_expert(self, rows: Tensor, expert_index: Tensor) -> Tensor:
        """What the owner of each row makes of it, one product for each expert: (R, D) -> (R, D).

        `owners` (R,) are numbers of experts, or E for rows that belong to none and come out as
        zeros. The host must know how many rows each expert has, so this is for the CPU.
        """
        order = expert_index.argsort(stable=True)  # (R,)
        sizes = self._one_hot(expert_index).sum(0).tolist()
        shares = torch.split(rows[order], [*sizes, len(rows) - sum(sizes)])
        answers = [
            self._expert_forward(share, inner, outer)
            for share, inner, outer in zip(shares, self.inner, self.outer, strict=False)
        ]
        unowned = torch.zeros_like(shares[-1], dtype=answers[0].dtype)
        together = torch.cat([*answers, unowned])  # (R, D)
        return torch.empty_like(together).index_copy(0, order, together)

    def dispatch_in_blocks(self, rows: Tensor, expert_index: Tensor) -> Tensor:
        """`by_shares` without a look at the device.

        Each expert's rows are laid into blocks of M rows, the last of them partly empty. However
        the rows fall, E + (R - E) / M blocks hold them: so many are computed, each with a copy of
        its expert's matrices. M weighs empty rows against copies, whose costs are as E M to R / M.
        """
        count, device = len(expert_index), expert_index.device
        size = 8 * math.ceil(math.sqrt(count / self.count))  # M
        blocks = self.count + max(0, count - self.count) // size
        one_hot = self._one_hot(expert_index)  # (R, E)
        needed = (one_hot.sum(0) + size - 1) // size  # (E,)
        ends = needed.cumsum(0)  # (E,) the block behind each expert's last
        block_expert = torch.searchsorted(
            ends, torch.arange(blocks, device=device), right=True
        )  # (blocks,)
        block_expert = block_expert.clamp_max(self.count - 1)  # those that nobody needs hold zeros
        clamped_index = expert_index.clamp_max(self.count - 1)  # (R,)
        rank = (
            one_hot.cumsum(0).gather(1, clamped_index[:, None])[:, 0] - 1
        )  # (R,) within its expert's
        place = (ends - needed)[clamped_index] * size + rank  # (R,)
        place = torch.where(
            expert_index < self.count, place, blocks * size
        )  # one row behind all blocks
        laid = rows.new_zeros(blocks * size + 1, rows.shape[1]).index_copy(0, place, rows)
        answers = self._expert_forward(
            laid[:-1].view(blocks, size, -1),  # (blocks, M, D)
            self.inner.index_select(0, block_expert),
            self.outer.index_select(0, block_expert),
        ).flatten(0, 1)
        return F.pad(answers, (0, 0, 0, 1)).index_select(0, place)  # (R, D)

    def _combine(self, x: Tensor, gate_output: GateOutput, expert_index: Tensor) -> Tensor:
        """y (N, D) of `x` (N, D)."""
        chosen = gate_output.experts.shape[1]
        rows = x[:, None].expand(-1, chosen, -1).flatten(0, 1)  # (N * k, D)
        dispatch = self.dispatch_by_expert if x.device.type == "cpu" else self.dispatch_in_blocks
        answers = torch.unflatten(dispatch(rows, expert_index), 0, (-1, chosen))  # (N, k, D)
        return (gate_output.weights[..., None] * answers).sum(1).to(answers.dtype)  # (N, D)

    def _expert_forward(self, x: Tensor, inner: Tensor, outer: Tensor) -> Tensor:
        """E_i(x) (..., M, D) of rows `x` (..., M, D) with the matrices of their expert."""
        answer: Tensor = self.dropout(activate(x @ inner, self.activation)) @ outer
        return answer

    def _expert_index(self, gate_output: GateOutput, real: Tensor) -> Tensor:
        """The expert of each choice (N * k,), or E where the position is padding."""
        return gate_output.experts.masked_fill(~real[:, None], self.count).flatten()

    def _one_hot(self, expert_index: Tensor) -> Tensor:
        """Whether a row belongs to an expert: (R,) -> (R, E)."""
        return expert_index[:, None] == torch.arange(self.count, device=expert_index.device)

    def _balance_loss(self, gate_output: GateOutput, real: Tensor) -> Tensor:
        """What uneven use costs: ()."""
        gates = torch.zeros_like(gate_output.selection_probs).scatter(
            1, gate_output.experts, gate_output.weights
        )
        importance, load = (
            torch.where(real[:, None], x, 0.0).sum(0) for x in (gates, gate_output.selection_probs)
        )  # (E,)
        return self.importance_weight * squared_variation(
            importance
        ) + self.load_weight * squared_variation(load)


def squared_variation(x: Tensor) -> Tensor:
    """CV(x)², the variance of `x` (E,) in units of its squared mean: ()."""
    return x.var(correction=0) / x.mean().square()
