"""Self-attention in the windows of pictures (Liu et al. 2021, Swin), read and written in place.

A program handles one head of several windows, each of which is a single tile: places of a window
beyond N are padding. Patches stay in the pictures' order, row by row: a program computes which
patches are in a window. In the last windows of a shifted picture, only patches of one part attend
to each other (see `attention.windows`).

Scores are in units of log 2, for `exp2`. The backward pass computes the weights again; the bias has
its gradient summed over the windows of each program. Kernels are not specialized on the number of
windows, which differs from batch to batch.
"""

import triton
import triton.language as tl

LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def _side_part(place, COUNT: tl.constexpr, SIZE: tl.constexpr, SHIFT: tl.constexpr):
    """Along a side of the shifted picture: 0 before the last window, 2 in what was moved there."""
    return (place >= COUNT - SIZE).to(tl.int32) + (place >= COUNT - SHIFT).to(tl.int32)


@triton.jit
def _window_patches(
    window, places,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, SIZE: tl.constexpr, SHIFT: tl.constexpr,
):  # fmt: skip
    """The patches at `places` of a window, counted over all pictures, and the part of each."""
    across: tl.constexpr = COLUMNS // SIZE
    per_picture: tl.constexpr = ROWS // SIZE * across
    picture, number = window // per_picture, window % per_picture
    y = number // across * SIZE + places // SIZE  # in the shifted picture
    x = number % across * SIZE + places % SIZE
    parts = _side_part(y, ROWS, SIZE, SHIFT) * 3 + _side_part(x, COLUMNS, SIZE, SHIFT)
    patches = (y + SHIFT) % ROWS * COLUMNS + (x + SHIFT) % COLUMNS
    return picture * (ROWS * COLUMNS) + patches, parts


@triton.jit
def _load_bias(bias, places, PLACES: tl.constexpr):
    """The bias of all pairs in a window, in units of log 2; padding gets no weight."""
    valid = places < PLACES
    cells = bias + places[:, None] * PLACES + places[None, :]
    loaded = tl.load(cells, mask=valid[:, None] & valid[None, :], other=0.0)
    return tl.where(valid[None, :], loaded * LOG2_E, float("-inf"))


@triton.jit
def _weights(q, k, bias, parts, scale, SHIFT: tl.constexpr):
    """softmax(scale Q Kᵀ + bias) in float32; `scale` and `bias` are in units of log 2.

    Rows of padding are finite: they are in the part of the window's first place.
    """
    scores = tl.dot(q, tl.trans(k), input_precision="ieee") * scale + bias
    if SHIFT:
        scores = tl.where(parts[:, None] == parts[None, :], scores, float("-inf"))
    weights = tl.exp2(scores - tl.max(scores, 1)[:, None])
    return weights / tl.sum(weights, 1)[:, None]


@triton.jit(do_not_specialize=["num_windows"])
def forward(
    stacked, bias, out, num_windows, scale,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, SIZE: tl.constexpr, SHIFT: tl.constexpr,
    HEADS: tl.constexpr, WIDTH: tl.constexpr, WIDTH_POW2: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """`out` (B, T, H, K) of `stacked` queries, keys and values (B, T, 3, H, K)."""
    num_places: tl.constexpr = SIZE * SIZE
    part: tl.constexpr = HEADS * WIDTH
    head, places, dims = tl.program_id(0), tl.arange(0, TILE), tl.arange(0, WIDTH_POW2)
    valid = (places < num_places)[:, None] & (dims < WIDTH)[None, :]
    places = tl.where(places < num_places, places, 0)
    bias = _load_bias(bias + head * (num_places * num_places), tl.arange(0, TILE), num_places)
    stacked += head * WIDTH
    out += head * WIDTH
    for window in range(tl.program_id(1), num_windows, tl.num_programs(1)):
        patches, parts = _window_patches(window, places, ROWS, COLUMNS, SIZE, SHIFT)
        rows = patches[:, None].to(tl.int64) * part
        cells = stacked + rows * 3 + dims[None, :]
        q = tl.load(cells, mask=valid, other=0.0)
        k = tl.load(cells + part, mask=valid, other=0.0)
        v = tl.load(cells + 2 * part, mask=valid, other=0.0)
        weights = _weights(q, k, bias, parts, scale * LOG2_E, SHIFT)
        mixed = tl.dot(weights.to(v.dtype), v, input_precision="ieee")
        tl.store(out + rows + dims[None, :], mixed.to(v.dtype), mask=valid)


@triton.jit(do_not_specialize=["num_windows"])
def backward(
    stacked, bias, grad, stacked_grad, bias_grads, num_windows, scale,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, SIZE: tl.constexpr, SHIFT: tl.constexpr,
    HEADS: tl.constexpr, WIDTH: tl.constexpr, WIDTH_POW2: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """`stacked_grad` (B, T, 3, H, K), and in `bias_grads` (P, H, N, N) each program's sum."""
    num_places: tl.constexpr = SIZE * SIZE
    part: tl.constexpr = HEADS * WIDTH
    head, program = tl.program_id(0), tl.program_id(1)
    all_places, dims = tl.arange(0, TILE), tl.arange(0, WIDTH_POW2)
    row_valid = all_places < num_places
    valid = row_valid[:, None] & (dims < WIDTH)[None, :]
    places = tl.where(row_valid, all_places, 0)
    bias = _load_bias(bias + head * (num_places * num_places), all_places, num_places)
    stacked += head * WIDTH
    stacked_grad += head * WIDTH
    grad += head * WIDTH
    bias_grad = tl.zeros((TILE, TILE), tl.float32)
    for window in range(program, num_windows, tl.num_programs(1)):
        patches, parts = _window_patches(window, places, ROWS, COLUMNS, SIZE, SHIFT)
        rows = patches[:, None].to(tl.int64) * part
        offsets = rows * 3 + dims[None, :]
        q = tl.load(stacked + offsets, mask=valid, other=0.0)
        k = tl.load(stacked + offsets + part, mask=valid, other=0.0)
        v = tl.load(stacked + offsets + 2 * part, mask=valid, other=0.0)
        g = tl.load(grad + rows + dims[None, :], mask=valid, other=0.0)
        weights = _weights(q, k, bias, parts, scale * LOG2_E, SHIFT)
        dv = tl.dot(tl.trans(weights.to(g.dtype)), g, input_precision="ieee")
        ds = tl.dot(g, tl.trans(v), input_precision="ieee")
        ds = weights * (ds - tl.sum(weights * ds, 1)[:, None])
        bias_grad += ds
        dq = tl.dot(ds.to(k.dtype), k, input_precision="ieee") * scale
        dk = tl.dot(tl.trans(ds.to(q.dtype)), q, input_precision="ieee") * scale
        cells = stacked_grad + offsets
        tl.store(cells, dq.to(q.dtype), mask=valid)
        tl.store(cells + part, dk.to(q.dtype), mask=valid)
        tl.store(cells + 2 * part, dv.to(q.dtype), mask=valid)
    cells = bias_grads + (program * HEADS + head).to(tl.int64) * (num_places * num_places)
    cells += all_places[:, None] * num_places + all_places[None, :]
    tl.store(cells, bias_grad, mask=row_valid[:, None] & row_valid[None, :])
