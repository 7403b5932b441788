"""A sub-layer's way out: its bias, dropout, the way past it and the layer norm, in one pass.

A program has some rows at a time. What the backward pass needs again it computes again from the
inputs, the means and the spreads; slopes of weights are summed over all rows of a program, and the
sums of the programs by whoever asked.
"""

import triton
import triton.language as tl

from regard.kernels.device.chance import kept, row_keys


@triton.jit
def _row(x, cols, WIDTH: tl.constexpr):
    """A vector as one row (1, D) in float32."""
    return tl.load(x + cols, mask=cols < WIDTH, other=0.0).to(tl.float32)[None, :]


@triton.jit
def _block(x, cells, real):
    return tl.load(x + cells, mask=real, other=0.0).to(tl.float32)


@triton.jit
def _stays(seed, rows, cols, threshold):
    """Which cells (R, D) dropout leaves."""
    chance = row_keys(seed, rows, tl.full((1,), 0, tl.int32))
    return kept(chance[:, None], cols[None, :], threshold)


@triton.jit(do_not_specialize=["num_rows", "threshold"])
def forward(
    x, y, bias, weight, shift, added, out, means, spreads, seed,
    num_rows, threshold, rest, epsilon,
    BIAS: tl.constexpr, DROP: tl.constexpr, KEEP: tl.constexpr,
    WIDTH: tl.constexpr, LANES: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """`out` = norm(x + dropout(y + bias)); with KEEP also `added`, what the norm was given."""
    rows, cols = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, LANES)
    cells = rows[:, None].to(tl.int64) * WIDTH + cols[None, :]
    real = (rows < num_rows)[:, None] & (cols < WIDTH)[None, :]
    more = _block(y, cells, real)
    if BIAS:
        more += _row(bias, cols, WIDTH)
    if DROP:
        more = tl.where(_stays(seed, rows, cols, threshold), more * rest, 0.0)
    z = _block(x, cells, real) + more
    if KEEP:
        short = z.to(added.dtype.element_ty)
        tl.store(added + cells, short, mask=real)
        z = short.to(tl.float32)
    z = tl.where(real, z, 0.0)
    mean = tl.sum(z, 1) / WIDTH
    apart = tl.where(real, z - mean[:, None], 0.0)
    spread = 1.0 / tl.sqrt(tl.sum(apart * apart, 1) / WIDTH + epsilon)
    normed = apart * spread[:, None] * _row(weight, cols, WIDTH) + _row(shift, cols, WIDTH)
    tl.store(out + cells, normed.to(out.dtype.element_ty), mask=real)
    tl.store(means + rows, mean, mask=rows < num_rows)
    tl.store(spreads + rows, spread, mask=rows < num_rows)


@triton.jit(do_not_specialize=["num_rows", "threshold"])
def backward(
    x, y, bias, weight, slope, beside, means, spreads, seed,
    to_x, to_y, to_weight, to_shift, to_bias,
    num_rows, threshold, rest,
    BIAS: tl.constexpr, DROP: tl.constexpr, KEEP: tl.constexpr, BESIDE: tl.constexpr,
    WIDTH: tl.constexpr, LANES: tl.constexpr, ROWS: tl.constexpr, PROGRAMS: tl.constexpr,
):  # fmt: skip
    """The slopes of x and y, and this program's share in those of the vectors.

    With KEEP, x is what the norm was given and y is not looked at; with BESIDE, `beside` is the
    slope that this has by the way past the norm. Without DROP the slope of y is that of x.
    """
    program, cols = tl.program_id(0), tl.arange(0, LANES)
    weights = _row(weight, cols, WIDTH)
    sum_weight = tl.zeros((ROWS, LANES), tl.float32)
    sum_shift = tl.zeros((ROWS, LANES), tl.float32)
    sum_bias = tl.zeros((ROWS, LANES), tl.float32)
    for first in range(program * ROWS, num_rows, PROGRAMS * ROWS):
        rows = first + tl.arange(0, ROWS)
        there = rows < num_rows
        cells = rows[:, None].to(tl.int64) * WIDTH + cols[None, :]
        real = there[:, None] & (cols < WIDTH)[None, :]
        stays = real
        if DROP:
            stays = _stays(seed, rows, cols, threshold)
        z = _block(x, cells, real)
        if not KEEP:
            more = _block(y, cells, real)
            if BIAS:
                more += _row(bias, cols, WIDTH)
            if DROP:
                more = tl.where(stays, more * rest, 0.0)
            z += more
        mean = tl.load(means + rows, mask=there, other=0.0)[:, None]
        spread = tl.load(spreads + rows, mask=there, other=0.0)[:, None]
        unit = tl.where(real, (z - mean) * spread, 0.0)
        g = _block(slope, cells, real)
        inner = g * weights
        along = tl.sum(inner * unit, 1) / WIDTH
        level = tl.sum(inner, 1) / WIDTH
        dz = (inner - unit * along[:, None] - level[:, None]) * spread
        if BESIDE:
            dz += _block(beside, cells, real)
        tl.store(to_x + cells, dz.to(to_x.dtype.element_ty), mask=real)
        dy = dz
        if DROP:
            dy = tl.where(stays, dz * rest, 0.0)
            tl.store(to_y + cells, dy.to(to_y.dtype.element_ty), mask=real)
        sum_weight += g * unit
        sum_shift += g
        if BIAS:
            sum_bias += tl.where(real, dy, 0.0)
    vectors: tl.constexpr = 3 if BIAS else 2  # the row of a program has the shares in all
    at, real = program * vectors * WIDTH + cols, cols < WIDTH
    tl.store(to_weight + at, tl.sum(sum_weight, 0), mask=real)
    tl.store(to_shift + at, tl.sum(sum_shift, 0), mask=real)
    if BIAS:
        tl.store(to_bias + at, tl.sum(sum_bias, 0), mask=real)
