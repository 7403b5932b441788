"""Bias, dropout, residual sum and layer norm in one pass, forward and backward.

The backward pass recomputes the norm's input, and normalizes it with the saved means and reciprocal
standard deviations. Each program sums its share in the gradients of weight, shift and bias; the
caller sums the shares.
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
def _drop_and_scale(
    values, seed, rows, cols, threshold, keep_scale, scales, num_rows,
    DROPOUT: tl.constexpr, SCALES: tl.constexpr,
):  # fmt: skip
    """`values` (R, D) after dropout and times the scales of rows; likewise for their gradients."""
    if DROPOUT:
        keys = row_keys(seed, rows, tl.full((1,), 0, tl.int32))
        kept = keep_mask(keys[:, None], cols[None, :], threshold)
        values = tl.where(kept, values * keep_scale, 0.0)
    if SCALES:
        values *= tl.load(scales + rows, mask=rows < num_rows, other=0.0)[:, None]
    return values


@triton.jit(do_not_specialize=["num_rows", "threshold"])
def forward(
    x, y, bias, scales, weight, shift, added, out, means, rstds, seed,
    num_rows, threshold, keep_scale, epsilon,
    BIAS: tl.constexpr, SCALES: tl.constexpr, DROPOUT: tl.constexpr, RETURN_SUM: tl.constexpr,
    HAS_Y: tl.constexpr, WIDTH: tl.constexpr, WIDTH_POW2: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """`out` = norm(x + s dropout(y + bias)); with RETURN_SUM also `added`, the norm's input.

    Without HAS_Y it is norm(x).
    """
    rows, cols = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, WIDTH_POW2)
    cells = rows[:, None].to(tl.int64) * WIDTH + cols[None, :]
    valid = (rows < num_rows)[:, None] & (cols < WIDTH)[None, :]
    z = _load_block(x, cells, valid)
    if HAS_Y:
        update = _load_block(y, cells, valid)
        if BIAS:
            update += _load_vector(bias, cols, WIDTH)
        z += _drop_and_scale(
            update, seed, rows, cols, threshold, keep_scale, scales, num_rows, DROPOUT, SCALES
        )
    if RETURN_SUM:
        rounded = z.to(added.dtype.element_ty)
        tl.store(added + cells, rounded, mask=valid)
        z = rounded.to(tl.float32)
    z = tl.where(valid, z, 0.0)
    mean = tl.sum(z, 1) / WIDTH
    centered = tl.where(valid, z - mean[:, None], 0.0)
    rstd = 1.0 / tl.sqrt(tl.sum(centered * centered, 1) / WIDTH + epsilon)
    scaled = centered * rstd[:, None] * _load_vector(weight, cols, WIDTH)
    normed = scaled + _load_vector(shift, cols, WIDTH)
    tl.store(out + cells, normed.to(out.dtype.element_ty), mask=valid)
    tl.store(means + rows, mean, mask=rows < num_rows)
    tl.store(rstds + rows, rstd, mask=rows < num_rows)


@triton.jit(do_not_specialize=["num_rows", "threshold"])
def backward(
    x, y, bias, scales, weight, grad, sum_grad, means, rstds, seed, x_grad, y_grad, shares,
    num_rows, threshold, keep_scale,
    BIAS: tl.constexpr, SCALES: tl.constexpr, DROPOUT: tl.constexpr, RETURN_SUM: tl.constexpr,
    HAS_SUM_GRAD: tl.constexpr,
    WIDTH: tl.constexpr, WIDTH_POW2: tl.constexpr, ROWS: tl.constexpr, PROGRAMS: tl.constexpr,
):  # fmt: skip
    """The gradients of x and y, and this program's `shares` in those of weight, shift and bias.

    With RETURN_SUM, x is the norm's input and y is not read; with HAS_SUM_GRAD, `sum_grad` is the
    gradient of the returned sum. Without DROPOUT and SCALES the gradient of y is that of x.
    """
    program, cols = tl.program_id(0), tl.arange(0, WIDTH_POW2)
    weights = _load_vector(weight, cols, WIDTH)
    sum_weight = tl.zeros((ROWS, WIDTH_POW2), tl.float32)
    sum_shift = tl.zeros((ROWS, WIDTH_POW2), tl.float32)
    sum_bias = tl.zeros((ROWS, WIDTH_POW2), tl.float32)
    for first in range(program * ROWS, num_rows, PROGRAMS * ROWS):
        rows = first + tl.arange(0, ROWS)
        row_valid = rows < num_rows
        cells = rows[:, None].to(tl.int64) * WIDTH + cols[None, :]
        valid = row_valid[:, None] & (cols < WIDTH)[None, :]
        z = _load_block(x, cells, valid)
        if not RETURN_SUM:
            update = _load_block(y, cells, valid)
            if BIAS:
                update += _load_vector(bias, cols, WIDTH)
            z += _drop_and_scale(
                update, seed, rows, cols, threshold, keep_scale, scales, num_rows, DROPOUT, SCALES
            )
        mean = tl.load(means + rows, mask=row_valid, other=0.0)[:, None]
        rstd = tl.load(rstds + rows, mask=row_valid, other=0.0)[:, None]
        normalized = tl.where(valid, (z - mean) * rstd, 0.0)
        g = _load_block(grad, cells, valid)
        weighted_grad = g * weights
        mean_projection = tl.sum(weighted_grad * normalized, 1) / WIDTH
        mean_grad = tl.sum(weighted_grad, 1) / WIDTH
        dz = (weighted_grad - normalized * mean_projection[:, None] - mean_grad[:, None]) * rstd
        if HAS_SUM_GRAD:
            dz += _load_block(sum_grad, cells, valid)
        tl.store(x_grad + cells, dz.to(x_grad.dtype.element_ty), mask=valid)
        dy = _drop_and_scale(
            dz, seed, rows, cols, threshold, keep_scale, scales, num_rows, DROPOUT, SCALES
        )
        if DROPOUT or SCALES:
            tl.store(y_grad + cells, dy.to(y_grad.dtype.element_ty), mask=valid)
        sum_weight += g * normalized
        sum_shift += g
        if BIAS:
            sum_bias += tl.where(valid, dy, 0.0)
    num_vectors: tl.constexpr = 3 if BIAS else 2
    share, valid = shares + program * num_vectors * WIDTH + cols, cols < WIDTH
    tl.store(share, tl.sum(sum_weight, 0), mask=valid)
    tl.store(share + WIDTH, tl.sum(sum_shift, 0), mask=valid)
    if BIAS:
        tl.store(share + 2 * WIDTH, tl.sum(sum_bias, 0), mask=valid)
