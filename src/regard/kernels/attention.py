"""Attention of short sentences that lie end to end in one row.

A general kernel has tiles of 64 or 128 queries of *one* sentence. Sentences of 29 tokens, the mean
of news text, leave most of such a tile empty; here several of them share one.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.library import custom_op

from regard.kernels.chance import draw_seed, kept, no_seed, threshold
from regard.kernels.launching import COMPILED, LEAST, device_of, kernels_of, power_of_two

LOG2_E = 1.4426950408889634
WIDTHS = (16, 128)
"""The narrowest and the widest head that there are tiles for."""


class Rows(NamedTuple):
    """Where B sentences lie in a row of N tokens: the tensors of an `attention.packed.Layout`."""

    offsets: Tensor  # (B + 1,) int32
    places: Tensor  # (N,) int64; divided by `longest`, the sentence of each token
    longest: int


class Tiles(NamedTuple):
    """How the work of a kernel is cut."""

    rows: int  # queries at a time
    cols: int  # keys at a time
    warps: int
    stages: int = 1
    stride: int = 0
    """For slopes of whole sentences: the tokens among which those of a program begin."""
    registers: int = 0
    """The most that a thread may have, so that more of them run at a time; 0: as it comes."""


class Plan(NamedTuple):
    """The tiles of the kernels."""

    forward: Tiles = Tiles(64, 64, 4)
    queries: Tiles = Tiles(64, 64, 4)
    keys: Tiles = Tiles(64, 64, 4)
    whole: Tiles | None = Tiles(64, 64, 4, stride=48)
    """One kernel for all three slopes; None: one for those of queries, one for the others."""


PLANS: dict[int, Plan] = {
    64: Plan(forward=Tiles(64, 32, 4), whole=Tiles(32, 64, 4, stride=32)),
    128: Plan(keys=Tiles(64, 64, 8), whole=Tiles(64, 64, 8, stride=48)),
}
"""By the lanes of a head, where they are not the usual ones: for 64 those that were the quickest on
an H200 for sentences of like length, for 128 those that spill few registers."""


def attend_short(
    parts: Sequence[Tensor],
    of_queries: Rows,
    of_keys: Rows,
    *,
    causal: bool,
    factor: float,
    dropout: float = 0.0,
) -> Tensor:
    """The values, mixed for each query by what it likes in its own sentence: (N, H, K).

    `parts` are (·, P, H, K), together a query, a key and a value for each token: all in one tensor
    (N, 3, H, K), as one projection makes them; queries (N, 1, H, K) and the others (M, 2, H, K); or
    three tensors. Slopes come back in tensors of the same kind, so that nothing is ever copied.
    """
    where = parts[0].device
    seed = draw_seed(where) if dropout else no_seed(where)
    how = (*of_queries, *of_keys, seed, causal, factor, dropout)
    mixed: Tensor
    if torch.compiler.is_compiling():
        mixed, _ = _forward(list(parts), *how)
    else:  # an operator takes the host a third of a millisecond
        mixed = _Eager.apply(how, *parts)  # type: ignore[no-untyped-call]
    return mixed


def plain_short(
    parts: Sequence[Tensor],
    of_queries: Rows,
    of_keys: Rows,
    *,
    causal: bool,
    factor: float,
    dropout: float = 0.0,
    seed: Tensor | None = None,
) -> Tensor:
    """`attend_short` as its formula reads, over all N · M pairs of tokens."""
    queries, keys, values = apart(parts)
    rows, cols = (torch.arange(len(x), device=x.device) for x in (queries, keys))
    seen = of_queries.places[:, None] // of_queries.longest == of_keys.places // of_keys.longest
    if causal:
        seen = seen & (rows[:, None] >= cols)
    scores = torch.einsum("nhk,mhk->hnm", queries, keys) * factor  # (H, N, M)
    weights = scores.masked_fill(~seen, float("-inf")).softmax(-1).masked_fill(~seen, 0.0)
    if dropout:
        assert seed is not None
        heads = torch.arange(queries.shape[1], device=rows.device)
        stays = kept(seed, rows[:, None], heads[:, None, None], cols, dropout)  # (H, N, M)
        weights = weights * stays / (1 - dropout)
    return torch.einsum("hnm,mhk->nhk", weights, values)


def apart(parts: Sequence[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """Views (N, H, K), (M, H, K), (M, H, K) of queries, keys and values."""
    queries, keys, values = (x for part in parts for x in part.unbind(1))
    return queries, keys, values


def _find(  # noqa: PLR0913 (an operator's schema has tensors and numbers alone)
    parts: list[Tensor],
    q_offsets: Tensor,
    q_places: Tensor,
    q_longest: int,
    k_offsets: Tensor,
    k_places: Tensor,
    k_longest: int,
    seed: Tensor,
    causal: bool,
    factor: float,
    dropout: float,
) -> tuple[Tensor, Tensor]:
    """What was found (N, H, K), and the logarithms of the sums of the weights (H, N)."""
    queries, keys, values = apart(parts)
    num, heads, width = queries.shape
    mixed = queries.new_empty(num, heads, width)
    sums = queries.new_empty(heads, num, dtype=torch.float32)
    tiles = _plan(width).forward
    with device_of(queries):
        kernels_of("attention").forward[(heads, -(-num // tiles.rows))](
            queries, keys, values, mixed, sums, seed,
            q_places, k_offsets, q_longest, num,
            *_steps(queries, keys, values, mixed),
            factor * LOG2_E, threshold(dropout), 1 / (1 - dropout),
            **_constants(causal, dropout, width, tiles),
        )  # fmt: skip
    return mixed, sums


_forward = custom_op("regard::attend_short", _find, mutates_args=())


@_forward.register_fake
def _(parts: list[Tensor], *_: Any) -> tuple[Tensor, Tensor]:
    queries = parts[0]
    num, heads, width = queries.shape[0], *queries.shape[2:]
    return (
        queries.new_empty(num, heads, width),
        queries.new_empty(heads, num, dtype=torch.float32),
    )


def _find_slopes(  # noqa: PLR0913
    slope: Tensor,
    parts: list[Tensor],
    mixed: Tensor,
    sums: Tensor,
    q_offsets: Tensor,
    q_places: Tensor,
    q_longest: int,
    k_offsets: Tensor,
    k_places: Tensor,
    k_longest: int,
    seed: Tensor,
    causal: bool,
    factor: float,
    dropout: float,
) -> list[Tensor]:
    """The slopes of the parts, given that of what was found."""
    slopes = [part.new_empty(part.shape) for part in parts]
    if not len(mixed):  # no query begins a tile, so that nobody would write those of the keys
        return [one.zero_() for one in slopes]
    if slope.stride(-1) != 1:
        slope = slope.contiguous()
    where = q_offsets, q_places, q_longest, k_offsets, k_places, k_longest
    numbers = factor, factor * LOG2_E, threshold(dropout), 1 / (1 - dropout)
    with device_of(slope):
        _launch(
            _Backward(apart(parts), mixed, slope, sums, apart(slopes), seed),
            where, numbers, {"causal": causal, "dropout": dropout, "width": mixed.shape[2]},
        )  # fmt: skip
    return slopes


class _Backward(NamedTuple):
    """The tensors of a backward pass."""

    inputs: tuple[Tensor, Tensor, Tensor]
    mixed: Tensor
    slope: Tensor
    sums: Tensor
    to: tuple[Tensor, Tensor, Tensor]
    seed: Tensor


def _launch(
    it: _Backward, where: tuple[Any, ...], numbers: tuple[Any, ...], how: dict[str, Any]
) -> None:
    """Write the slopes."""
    q_offsets, q_places, q_longest, k_offsets, k_places, k_longest = where
    inputs, mixed, slope, sums, to, seed = it
    kernels = kernels_of("attention")
    (num, heads, _), others, plan = mixed.shape, len(inputs[1]), _plan(how["width"])
    if plan.whole is not None:
        kernels.backward_whole[(heads, -(-num // plan.whole.stride))](
            *inputs, mixed, slope, sums, *to, seed,
            q_places, q_offsets, k_offsets, q_longest, len(q_offsets) - 1, num,
            *_steps(*inputs, mixed, slope, *to),
            *numbers, **_constants(**how, tiles=plan.whole), STRIDE=plan.whole.stride,
        )  # fmt: skip
        return
    deltas = torch.empty_like(sums)
    kernels.backward_queries[(heads, -(-num // plan.queries.rows))](
        *inputs, mixed, slope, sums, deltas, to[0], seed,
        q_places, k_offsets, q_longest, num,
        *_steps(*inputs, mixed, slope, to[0]),
        *numbers, **_constants(**how, tiles=plan.queries),
    )  # fmt: skip
    kernels.backward_keys[(heads, -(-others // plan.keys.cols))](
        *inputs, slope, sums, deltas, *to[1:], seed,
        k_places, q_offsets, k_longest, num, others,
        *_steps(*inputs, slope, *to[1:]),
        *numbers, **_constants(**how, tiles=plan.keys),
    )  # fmt: skip


_backward = custom_op("regard::attend_short_backward", _find_slopes, mutates_args=())


@_backward.register_fake
def _(slope: Tensor, parts: list[Tensor], *_: Any) -> list[Tensor]:
    return [part.new_empty(part.shape) for part in parts]


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    parts, q_offsets, q_places, q_longest, k_offsets, k_places, k_longest, seed, *rest = inputs
    tensors = q_offsets, q_places, k_offsets, k_places, seed
    ctx.save_for_backward(*tensors, *output, *parts)
    ctx.longest, ctx.rest = (q_longest, k_longest), rest
    ctx.set_materialize_grads(False)


def _slopes(ctx: Any, slope: Tensor | None, _: Tensor | None) -> tuple[Any, ...]:
    nothing = (None,) * 10
    if slope is None:
        return None, *nothing
    q_offsets, q_places, k_offsets, k_places, seed, mixed, sums, *parts = ctx.saved_tensors
    queries = q_offsets, q_places, ctx.longest[0]
    keys = k_offsets, k_places, ctx.longest[1]
    return _backward(slope, parts, mixed, sums, *queries, *keys, seed, *ctx.rest), *nothing


_forward.register_autograd(_slopes, setup_context=_keep)


class _Eager(torch.autograd.Function):
    """The operator, for when nobody compiles."""

    @staticmethod
    def forward(ctx: Any, how: tuple[Any, ...], *parts: Tensor) -> Tensor:
        mixed, sums = _find(list(parts), *how)
        ctx.save_for_backward(mixed, sums, *parts)
        ctx.how = how
        return mixed

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        mixed, sums, *parts = ctx.saved_tensors
        return None, *_find_slopes(slope, parts, mixed, sums, *ctx.how)


def _steps(*tensors: Tensor) -> list[int]:
    """The strides of tokens and of heads of each tensor (N, H, K)."""
    for x in tensors:
        if x.stride(2) != 1:
            raise ValueError(f"a head's numbers must lie side by side, got strides {x.stride()}")
    return [x.stride(axis) for x in tensors for axis in (0, 1)]


def lanes_of(width: int) -> int:
    """Places that a head of that width takes in a tile."""
    return power_of_two(width, least=LEAST)


def _plan(width: int) -> Plan:
    return PLANS.get(lanes_of(width), Plan())


def _constants(causal: bool, dropout: float, width: int, tiles: Tiles) -> dict[str, Any]:
    bound = {"maxnreg": tiles.registers} if tiles.registers else {}
    return {
        **COMPILED,
        **bound,
        "CAUSAL": causal,
        "DROP": dropout > 0,
        "WIDTH": width,
        "LANES": lanes_of(width),
        "ROWS": tiles.rows,
        "COLS": tiles.cols,
        "num_warps": tiles.warps,
        "num_stages": tiles.stages,
    }
