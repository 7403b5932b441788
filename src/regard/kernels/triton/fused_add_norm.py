"""A sub-layer's way out: its bias, dropout, the way past it and the layer norm, in one pass.

A program has some rows at a time. What the backward pass needs again it computes again from the
inputs, the means and the spreads; slopes of weights are summed over all rows of a program, and the
sums of the programs by whoever asked.
"""

import triton
import triton.language as tl

from regard.kernels.triton.dropout_rng import keep_mask, row_keys


@triton.jit
def _load_vector(x, cols, WIDTH: tl.constexpr):
    """A vector as one row (1, D) in float32."""
    return tl.load(x + cols, mask=cols < WIDTH, other=0.0).to(tl.float32)[None, :]


@triton.jit
def _load_block(x, cells, valid):
    return tl.load(x + cells, mask=valid, other=0.0).to(tl.float32)


@triton.jit
def _dropout_mask(seed, rows, cols, threshold):
    """Which cells (R, D) dropout leaves."""
    chance = row_keys(seed, rows, tl.full((1,), 0, tl.int32))
    return keep_mask(chance[:, None], cols[None, :], threshold)


@triton.jit(do_not_specialize=["num_rows", "threshold"])
def forward(
    x, y, bias, weight, shift, added, out, means, rstds, seed,
    num_rows, threshold, keep_scale, epsilon,
    BIAS: tl.constexpr, DROP: tl.constexpr, KEEP: tl.constexpr,
    WIDTH: tl.constexpr, LANES: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """`out` = norm(x + dropout(y + bias)); with KEEP also `added`, what the norm was given."""
    rows, cols = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, LANES)
    cells = rows[:, None].to(tl.int64) * WIDTH + cols[None, :]
    valid = (rows < num_rows)[:, None] & (cols < WIDTH)[None, :]
    update = _load_block(y, cells, valid)
    if BIAS:
        update += _load_vector(bias, cols, WIDTH)
    if DROP:
        update = tl.where(_dropout_mask(seed, rows, cols, threshold), update * keep_scale, 0.0)
    z = _load_block(x, cells, valid) + update
    if KEEP:
        rounded = z.to(added.dtype.element_ty)
        tl.store(added + cells, rounded, mask=valid)
        z = rounded.to(tl.float32)
    z = tl.where(valid, z, 0.0)
    mean = tl.sum(z, 1) / WIDTH
    centered = tl.where(valid, z - mean[:, None], 0.0)
    rstd = 1.0 / tl.sqrt(tl.sum(centered * centered, 1) / WIDTH + epsilon)
    normed = centered * rstd[:, None] * _load_vector(weight, cols, WIDTH) + _load_vector(
        shift, cols, WIDTH
    )
    tl.store(out + cells, normed.to(out.dtype.element_ty), mask=valid)
    tl.store(means + rows, mean, mask=rows < num_rows)
    tl.store(rstds + rows, rstd, mask=rows < num_rows)


@triton.jit(do_not_specialize=["num_rows", "threshold"])
def backward(
    x, y, bias, weight, grad, sum_grad, means, rstds, seed,
    x_grad, y_grad, weight_grad, shift_grad, bias_grad,
    num_rows, threshold, keep_scale,
    BIAS: tl.constexpr, DROP: tl.constexpr, KEEP: tl.constexpr, BESIDE: tl.constexpr,
    WIDTH: tl.constexpr, LANES: tl.constexpr, ROWS: tl.constexpr, PROGRAMS: tl.constexpr,
):  # fmt: skip
    """The slopes of x and y, and this program's share in those of the vectors.

    With KEEP, x is what the norm was given and y is not looked at; with BESIDE, `beside` is the
    slope that this has by the way past the norm. Without DROP the slope of y is that of x.
    """
    program, cols = tl.program_id(0), tl.arange(0, LANES)
    weights = _load_vector(weight, cols, WIDTH)
    sum_weight = tl.zeros((ROWS, LANES), tl.float32)
    sum_shift = tl.zeros((ROWS, LANES), tl.float32)
    sum_bias = tl.zeros((ROWS, LANES), tl.float32)
    for first in range(program * ROWS, num_rows, PROGRAMS * ROWS):
        rows = first + tl.arange(0, ROWS)
        row_valid = rows < num_rows
        cells = rows[:, None].to(tl.int64) * WIDTH + cols[None, :]
        valid = row_valid[:, None] & (cols < WIDTH)[None, :]
        dropout_mask = valid
        if DROP:
            dropout_mask = _dropout_mask(seed, rows, cols, threshold)
        z = _load_block(x, cells, valid)
        if not KEEP:
            update = _load_block(y, cells, valid)
            if BIAS:
                update += _load_vector(bias, cols, WIDTH)
            if DROP:
                update = tl.where(dropout_mask, update * keep_scale, 0.0)
            z += update
        mean = tl.load(means + rows, mask=row_valid, other=0.0)[:, None]
        rstd = tl.load(rstds + rows, mask=row_valid, other=0.0)[:, None]
        normalized = tl.where(valid, (z - mean) * rstd, 0.0)
        g = _load_block(grad, cells, valid)
        weighted_grad = g * weights
        mean_projection = tl.sum(weighted_grad * normalized, 1) / WIDTH
        mean_grad = tl.sum(weighted_grad, 1) / WIDTH
        dz = (weighted_grad - normalized * mean_projection[:, None] - mean_grad[:, None]) * rstd
        if BESIDE:
            dz += _load_block(sum_grad, cells, valid)
        tl.store(x_grad + cells, dz.to(x_grad.dtype.element_ty), mask=valid)
        dy = dz
        if DROP:
            dy = tl.where(dropout_mask, dz * keep_scale, 0.0)
            tl.store(y_grad + cells, dy.to(y_grad.dtype.element_ty), mask=valid)
        sum_weight += g * normalized
        sum_shift += g
        if BIAS:
            sum_bias += tl.where(valid, dy, 0.0)
    vectors: tl.constexpr = 3 if BIAS else 2  # the row of a program has the shares in all
    offset, valid = program * vectors * WIDTH + cols, cols < WIDTH
    tl.store(weight_grad + offset, tl.sum(sum_weight, 0), mask=valid)
    tl.store(shift_grad + offset, tl.sum(sum_shift, 0), mask=valid)
    if BIAS:
        tl.store(bias_grad + offset, tl.sum(sum_bias, 0), mask=valid)
