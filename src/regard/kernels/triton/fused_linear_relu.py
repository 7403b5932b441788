"""The gradient before a ReLU, and that of the bias before it, in one pass."""

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["num_rows"])
def backward(
    out, grad, inner_grad, bias_grad, num_rows,
    WIDTH: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr, PROGRAMS: tl.constexpr,
):  # fmt: skip
    """`grad` where `out` is positive, and this program's share in the sums of its columns."""
    cols, program = tl.program_id(0) * COLS + tl.arange(0, COLS), tl.program_id(1)
    sums = tl.zeros((ROWS, COLS), tl.float32)
    for first in range(program * ROWS, num_rows, PROGRAMS * ROWS):
        rows = first + tl.arange(0, ROWS)
        offsets = rows[:, None].to(tl.int64) * WIDTH + cols[None, :]
        valid = (rows < num_rows)[:, None] & (cols < WIDTH)[None, :]
        activation = tl.load(out + offsets, mask=valid, other=0.0)
        g = tl.where(activation > 0.0, tl.load(grad + offsets, mask=valid, other=0.0), 0.0)
        tl.store(inner_grad + offsets, g, mask=valid)
        sums += g.to(tl.float32)
    tl.store(bias_grad + program * WIDTH + cols, tl.sum(sums, 0), mask=cols < WIDTH)
