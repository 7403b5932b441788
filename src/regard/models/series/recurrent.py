"""The many-to-one recurrent network: it reads a series of numbers and forecasts the next."""

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.attend import KeyValues, attend, padding_mask
from regard.attention.score_functions import PositionScore, ScoreFunction, TanhPositionScore
from regard.layers.initialization import xavier_linears
from regard.models.contracts import Predictor
from regard.settings import NumPositions, Settings, Width
from regard.types import AttentionHook, Series, Site


class SimpleRnnSettings(Settings):
    """A recurrent network with or without attention over its states."""

    family: Literal["simple-rnn"] = "simple-rnn"
    """The model family."""
    width: Width = 2
    """Units of the recurrent layer."""
    attention: Literal["none", "linear", "softmax"] = "none"
    """What the forecast is computed from: the last state (`none`); all states, with a learned
    weight for each time step and a bias (`linear`); or all states, weighted by a softmax of tanh(wᵀ
    h_t + b_t) (`softmax`)."""
    time_steps: NumPositions = 20
    """The number of time steps that attention has weights for; without attention, there is no
    limit."""


class SimpleRnn(Predictor[Series]):
    """h_t = tanh(W x_t + U h_{t-1} + b), h_0 = 0; the forecast is a linear layer of c.

    c is the last state, c = Σ_t α_t h_t + b_α (`linear`) or c = Σ_t α_t h_t, where α is the softmax
    of tanh(wᵀ h_t + b_t) (`softmax`). With 2 units, 1 feature and 20 time steps there are
    8 + 3 = 11 parameters, and 20 + 2 = 22 more with either attention.
    """

    def __init__(self, settings: SimpleRnnSettings, features: int) -> None:
        super().__init__()
        width, steps = settings.width, settings.time_steps
        self.input = nn.Linear(features, width)
        self.recurrent = nn.Linear(width, width, bias=False)
        self.score: ScoreFunction | None = None
        self.register_parameter("context_bias", None)
        if settings.attention == "linear":
            self.score = PositionScore(steps)
            self.context_bias = nn.Parameter(torch.zeros(width))
        elif settings.attention == "softmax":
            self.score = TanhPositionScore(width, steps)
        self.output = nn.Linear(width, features)
        xavier_linears(self)
        nn.init.orthogonal_(self.recurrent.weight)
        self.max_length = steps if self.score else None

    def row_features(self, inputs: Series, *, hook: AttentionHook | None = None) -> Tensor:
        """c (B, D) of a series (B, S, F); attention counts time steps from the last."""
        states = self.states(inputs)  # (B, S, D)
        if self.score is None:
            return states[:, -1]
        heads = states[:, None]  # (B, 1, S, D)
        mixed = attend(
            self.score,
            heads[:, :, -1:],
            KeyValues(self.score.prepare(heads), heads),
            padding_mask(inputs.mask),
            site=Site("cross", 0),
            hook=hook,
        )[:, 0, 0]  # (B, D)
        return mixed if self.context_bias is None else mixed + self.context_bias

    def states(self, series: Series) -> Tensor:
        """The states (B, S, D) after each time step; padding leaves them as they are."""
        values, mask = series.values.to(self.input.weight.dtype), series.mask[..., None]
        # Autocast is off: the state would lose small updates.
        with torch.autocast(values.device.type, enabled=False):
            inputs = self.input(values)  # (B, S, D)
            state, states = torch.zeros_like(inputs[:, 0]), []
            for x, real in zip(inputs.unbind(1), mask.unbind(1), strict=True):
                new = torch.tanh(x + F.linear(state, self.recurrent.weight))
                state = torch.where(real, new, state)  # (B, D)
                states.append(state)
            return torch.stack(states, 1)
