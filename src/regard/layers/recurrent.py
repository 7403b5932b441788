"""Recurrent layers with one bias per gate, for a whole sequence or for one step."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.kernels.dropout import Dropout, apply_dropout

CellName = Literal["lstm", "gru"]
Reading = Literal["forward", "backward", "both"]
"""The direction in which a sequence is read: from its beginning, from its end, or both."""

Hidden = tuple[Tensor, ...]
"""An LSTM's h and c, or a GRU's h, each (..., D). Of a stack of L layers: the L of h, then the L of
c; `hidden[i::L]` is that of layer i."""

NUM_GATES = {"lstm": 4, "gru": 3}
GRADIENT_SCALE = 4096.0
"""The scale of gradients in float16, whose smallest number is 6e-8: gradients of a mean over
thousands of tokens are small."""
GATE_SATURATION = 1e4
"""A gate's sigmoid is exactly 0 or 1 at this distance from 0, even in half precision."""


class RecurrentOutput(NamedTuple):
    """The output of a layer, or of a stack of them."""

    outputs: Tensor  # (B, T, D)
    hidden: Hidden  # after the last position, each (B, D)


class RecurrentLayer(nn.Module):
    """An LSTM (Hochreiter and Schmidhuber 1997, with forget gate) or a GRU (Cho et al. 2014).

    It is computed by torch's kernels. Their second bias, `state_bias`, is added to U h, which a
    GRU's reset gate multiplies; it is zero by default. Their GRU has the candidate
    tanh(W x + r ∘ (U h)), where Cho and Bahdanau have tanh(W x + U (r ∘ h)); its update gate z
    keeps the old state, z ∘ h + (1 - z) ∘ candidate, like Cho's and unlike Bahdanau's. Autocast is
    off: the state would lose small updates. An LSTM's c may have more `units` than its `width`, to
    which h is then projected (Sak et al. 2014). In training, a share `weight_drop` of the weights
    U is dropped, the same ones at all positions of a sequence (Merity et al. 2018). With `float16`,
    autocast on a GPU computes in float16, in half the time; it keeps more of the state than
    bfloat16 would.
    """

    def __init__(
        self,
        cell: CellName,
        inputs: int,
        width: int,
        *,
        units: int | None = None,
        weight_drop: float = 0.0,
        float16: bool = False,
        state_bias: bool = False,
    ) -> None:
        super().__init__()
        if units is not None and cell != "lstm":
            raise ValueError(
                f"only an LSTM can have units other than its width, got {cell=} and {units=}"
            )
        if units is not None and weight_drop:
            raise ValueError(f"weights of a projected LSTM are not dropped, got {weight_drop=}")
        if units is not None and state_bias:
            raise ValueError(f"a projected LSTM has one bias, got {state_bias=}")
        self.cell, self.width, self.units = cell, width, units or width
        self.weight_drop, self.float16 = weight_drop, float16
        rows = NUM_GATES[cell] * self.units
        self.weight_ih = nn.Parameter(torch.empty(rows, inputs))
        self.weight_hh = nn.Parameter(torch.empty(rows, width))
        self.bias = nn.Parameter(torch.empty(rows))
        self.state_bias = nn.Parameter(torch.zeros(rows)) if state_bias else None
        self.weight_hr = None if units is None else nn.Parameter(torch.empty(width, units))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Xavier for the inputs, orthogonal for the state, biases 1 for an LSTM's forget gate."""
        gates = (weight.chunk(NUM_GATES[self.cell]) for weight in (self.weight_ih, self.weight_hh))
        for from_input, from_state in zip(*gates, strict=True):
            nn.init.xavier_uniform_(from_input)
            nn.init.orthogonal_(from_state)
        nn.init.zeros_(self.bias)
        if self.cell == "lstm":
            nn.init.ones_(self.bias.chunk(4)[1])
        if self.weight_hr is not None:
            nn.init.xavier_uniform_(self.weight_hr)

    def zero_state(self, rows: int) -> Hidden:
        """The state before anything was read, each (rows, D)."""
        widths = (self.width, self.units) if self.cell == "lstm" else (self.width,)
        return tuple(self.bias.new_zeros(rows, width) for width in widths)

    def forward(
        self, x: Tensor, hidden: Hidden | None = None, *, mask: Tensor | None = None
    ) -> RecurrentOutput:
        """`x` (B, T, inputs) read from the left, by torch's kernel for whole sequences.

        Without `hidden`, each (B, D), the state starts from zeros. Where `mask` (B, T) is False an
        LSTM's c and a GRU's h stay as they are, so that they end as at the last real position, and
        padding may come first as well as last. The outputs at such positions are arbitrary.
        """
        hidden = self.zero_state(x.shape[0]) if hidden is None else hidden
        in_half = self.float16 and x.is_cuda and torch.is_autocast_enabled("cuda")
        x, weight = x.to(self.bias.dtype), cast(Tensor, self.weight_ih)
        if mask is not None:
            x, weight = self._with_padding_gate(x, mask)
        first = [h.to(x.dtype)[None].contiguous() for h in hidden]  # each (1, B, D)
        with torch.autocast(x.device.type, enabled=False):
            if self.weight_hr is not None:
                return self._run_projected(F.linear(x, weight, self.bias), *(h[0] for h in first))
            drop = self.weight_drop if self.training else 0.0
            weight_hh = apply_dropout(self.weight_hh, drop)
            weights = [weight, weight_hh, self.bias, self._second_bias]
            if in_half:
                x, *weights = to_half(x, *weights)
                first = list(to_half(*first))
            if x.is_cuda:
                weights = _flatten_weights(weights)
            # has_biases, num_layers, dropout, train (cuDNN: keep what gradients need),
            # bidirectional, batch_first
            options = (True, 1, 0.0, torch.is_grad_enabled(), False, True)
            if self.cell == "lstm":
                outputs, *last = torch.lstm(x, first, weights, *options)
            else:
                outputs, *last = torch.gru(x, first[0], weights, *options)
        if in_half:
            outputs, *last = from_half(outputs, *last)
        return RecurrentOutput(outputs, tuple(h[0] for h in last))

    def read(self, x: Tensor, mask: Tensor, *, backward: bool = False) -> RecurrentOutput:
        """The outputs for a padded `x` (B, S, inputs), read from its beginning or its end, and the
        last state.
        """
        if backward:
            outputs, hidden = self(x.flip(1), mask=mask.flip(1))
            return RecurrentOutput(outputs.flip(1), hidden)  # the last position is real
        outputs, hidden = self(x, mask=mask)
        rows, ends = torch.arange(x.shape[0], device=x.device), mask.sum(1) - 1  # (B,)
        return RecurrentOutput(outputs, (outputs[rows, ends], *hidden[1:]))

    def step(self, x: Tensor, hidden: Hidden) -> Hidden:
        """The state after one more input: `x` (..., inputs), each of `hidden` (..., D)."""
        leading_shape = x.shape[:-1]
        x, *old = (y.to(self.bias.dtype).flatten(0, -2) for y in (x, *hidden))  # (N, ·)
        weights = (self.weight_ih, self.weight_hh, self.bias, self._second_bias)
        with torch.autocast(x.device.type, enabled=False):
            new: Hidden
            if self.weight_hr is not None:
                new = self._projected_step(F.linear(x, self.weight_ih, self.bias), *old)
            elif self.cell == "lstm":
                new = torch.lstm_cell(x, old, *weights)
            else:
                new = (torch.gru_cell(x, old[0], *weights),)
        return tuple(h.view(*leading_shape, -1) for h in new)

    @property
    def _second_bias(self) -> Tensor:
        return torch.zeros_like(self.bias) if self.state_bias is None else self.state_bias

    def advance(self, x: Tensor, hidden: Hidden | None) -> RecurrentOutput:
        """A whole sequence `x` (B, T, inputs); with `hidden`, one step of `x` (B, K, inputs)."""
        if hidden is None:
            return self.forward(x)
        hidden = self.step(x, hidden)
        return RecurrentOutput(hidden[0], hidden)

    def _run_projected(self, projected_inputs: Tensor, h: Tensor, c: Tensor) -> RecurrentOutput:
        """A sequence of projected inputs (B, T, 4 units), by a loop: there is no kernel for it."""
        weights = self.weight_hh, cast(Tensor, self.weight_hr)
        outputs, *last = run_projected_lstm(projected_inputs, h, c, *weights)
        return RecurrentOutput(outputs, tuple(last))

    def _projected_step(self, projected_inputs: Tensor, h: Tensor, c: Tensor) -> Hidden:
        weights = self.weight_hh, cast(Tensor, self.weight_hr)
        return projected_lstm_cell(projected_inputs, h, c, *weights)

    def _with_padding_gate(self, x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """`x` with a flag on padding, and weights by which the flag holds the state.

        The flag closes the input gate and opens the forget gate (GRU: update gate), without a GPU
        sync.
        """
        num_columns = 8  # of which one is used: tensor cores need multiples of eight
        flag = nn.functional.pad((~mask)[..., None].to(x.dtype), (0, num_columns - 1))  # (B, T, 8)
        hold_weight = x.new_zeros(NUM_GATES[self.cell], self.units, num_columns)
        if self.cell == "lstm":  # input, forget, candidate, output
            hold_weight[0, :, 0] = -GATE_SATURATION
        hold_weight[1, :, 0] = GATE_SATURATION  # forget; or of reset, update, candidate
        return torch.cat([x, flag], -1), torch.cat([self.weight_ih, hold_weight.flatten(0, 1)], -1)


def projected_lstm_cell(
    projected_inputs: Tensor, h: Tensor, c: Tensor, weight_hh: Tensor, weight_hr: Tensor
) -> tuple[Tensor, Tensor]:
    """h (N, D) and c (N, units) after inputs (N, 4 units), already projected (Sak et al. 2014)."""
    gates = projected_inputs + F.linear(h, weight_hh)
    input_gate, forget_gate, candidate, output_gate = gates.chunk(4, dim=-1)  # (N, units)
    c = forget_gate.sigmoid() * c + input_gate.sigmoid() * candidate.tanh()
    return F.linear(output_gate.sigmoid() * c.tanh(), weight_hr), c


def _projected_loop(
    projected_inputs: Tensor, h: Tensor, c: Tensor, weight_hh: Tensor, weight_hr: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """All h (B, T, D), the last h and the last c for inputs (B, T, 4 units), already projected."""
    outputs = []
    for column in projected_inputs.unbind(1):  # (B, 4 units)
        h, c = projected_lstm_cell(column, h, c, weight_hh, weight_hr)
        outputs.append(h)
    return torch.stack(outputs, 1), h, c


run_projected_lstm: Callable[..., tuple[Tensor, Tensor, Tensor]]
run_projected_lstm = torch.jit.script_if_tracing(_projected_loop)  # type: ignore[no-untyped-call]
"""`_projected_loop`, scripted in a traced graph: tracing would unroll it for one length."""


def _flatten_weights(weights: Sequence[Tensor]) -> list[Tensor]:
    """The weights in one buffer, in this order, as cuDNN needs them; else it warns and copies."""
    flat = torch.cat([w.flatten() for w in weights])
    parts = torch.split(flat, [w.numel() for w in weights])
    return [part.view_as(w) for part, w in zip(parts, weights, strict=True)]


class _Cast(torch.autograd.Function):
    """Tensors in another precision; their gradients are scaled, so that float16 holds them."""

    @staticmethod
    def forward(ctx: Any, dtype: torch.dtype, scale: float, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.dtypes, ctx.scale = [x.dtype for x in tensors], scale
        ctx.set_materialize_grads(False)
        return tuple(x.to(dtype) for x in tensors)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        pairs = zip(grads, ctx.dtypes, strict=True)
        scaled = (None if x is None else (x.float() * ctx.scale).to(dtype) for x, dtype in pairs)
        return None, None, *scaled


def to_half(*tensors: Tensor) -> tuple[Tensor, ...]:
    """`tensors` in float16, where gradients are `GRADIENT_SCALE` times as large."""
    cast: tuple[Tensor, ...] = _Cast.apply(torch.float16, 1 / GRADIENT_SCALE, *tensors)  # type: ignore[no-untyped-call]
    return cast


def from_half(*tensors: Tensor) -> tuple[Tensor, ...]:
    """`tensors` of `to_half` back in float32, with gradients of their own size."""
    cast: tuple[Tensor, ...] = _Cast.apply(torch.float32, GRADIENT_SCALE, *tensors)  # type: ignore[no-untyped-call]
    return cast


class RecurrentDecoder(nn.Module):
    """A stack of layers read from the left, with dropout between them."""

    def __init__(
        self,
        cell: CellName,
        inputs: int,
        width: int,
        *,
        layers: int = 1,
        dropout: float = 0.0,
        state_bias: bool = False,
    ) -> None:
        super().__init__()
        widths = [inputs, *[width] * (layers - 1)]
        stack = nn.ModuleList(RecurrentLayer(cell, i, width, state_bias=state_bias) for i in widths)
        self.layers = cast(Sequence[RecurrentLayer], stack)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, hidden: Hidden) -> Tensor:
        """The top layer's h at each position of `x`: (B, T, inputs) -> (B, T, D)."""
        for number, layer in enumerate(self.layers):
            x = layer(self.dropout(x) if number else x, hidden[number :: len(self.layers)]).outputs
        return x

    def step(self, x: Tensor, hidden: Hidden) -> RecurrentOutput:
        """The top layer's h, and the next state: `x` (B, K, inputs), each of `hidden` (B, K, D)."""
        new: list[Hidden] = []
        for number, layer in enumerate(self.layers):
            x = self.dropout(x) if number else x
            new.append(layer.step(x, hidden[number :: len(self.layers)]))
            x = new[-1][0]
        return RecurrentOutput(x, merge_layer_states(new))


class RecurrentEncoder(nn.Module):
    """A stack of layers that read a padded source, with dropout between them.

    `backward` reads the source from its end (Sutskever et al. 2014). With `both`, each direction
    has half of the width and of the units, and their states are concatenated, in each layer.
    """

    def __init__(
        self,
        cell: CellName,
        inputs: int,
        width: int,
        *,
        layers: int = 1,
        reading: Reading = "forward",
        dropout: float = 0.0,
        units: int | None = None,
        state_bias: bool = False,
    ) -> None:
        super().__init__()
        check_reading(reading, width, units)
        widths = [inputs, *[width] * (layers - 1)]
        self.layers = nn.ModuleList(
            _DirectionalLayer(cell, i, width, reading, units, state_bias=state_bias) for i in widths
        )
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, mask: Tensor) -> RecurrentOutput:
        """The top layer's h for `x` (B, S, inputs), and the last states of all layers."""
        last: list[Hidden] = []
        for number, layer in enumerate(self.layers):
            x, hidden = layer(self.dropout(x) if number else x, mask)  # (B, S, D)
            last.append(hidden)
        return RecurrentOutput(x, merge_layer_states(last))


def merge_layer_states(layers: Sequence[Hidden]) -> Hidden:
    """The states of the layers of a stack as one: all of h, then all of c."""
    return tuple(h for kind in zip(*layers, strict=True) for h in kind)


def check_reading(reading: Reading, width: int, units: int | None = None) -> None:
    """Raise a ValueError if `width` or `units` cannot be halved for two directions."""
    if reading == "both" and width % 2:
        raise ValueError(f"a bidirectional encoder needs an even width, got {width}")
    if reading == "both" and units is not None and units % 2:
        raise ValueError(f"a bidirectional encoder needs an even number of units, got {units}")


class _DirectionalLayer(nn.Module):
    def __init__(
        self,
        cell: CellName,
        inputs: int,
        width: int,
        reading: Reading,
        units: int | None,
        *,
        state_bias: bool,
    ) -> None:
        super().__init__()
        if reading == "both":
            width, units = width // 2, units and units // 2
        layer = partial(RecurrentLayer, cell, inputs, width, units=units, state_bias=state_bias)
        self.forward_layer = layer() if reading != "backward" else None
        self.backward_layer = layer() if reading != "forward" else None

    def forward(self, x: Tensor, mask: Tensor) -> RecurrentOutput:
        parts = [
            layer.read(x, mask, backward=backward)
            for layer, backward in ((self.forward_layer, False), (self.backward_layer, True))
            if layer is not None
        ]
        if len(parts) == 1:
            return parts[0]
        both = zip(*(part.hidden for part in parts), strict=True)
        outputs = torch.cat([part.outputs for part in parts], -1)  # (B, S, D)
        return RecurrentOutput(outputs, tuple(torch.cat(pair, -1) for pair in both))
