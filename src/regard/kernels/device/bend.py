"""The slope behind a ReLU, and that of the bias before it, in one pass."""

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["num_rows"])
def backward(
    out, slope, to_inner, to_bias, num_rows,
    WIDTH: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr, PROGRAMS: tl.constexpr,
):  # fmt: skip
    """`slope` where `out` is not 0, and this program's share in the sums of its columns."""
    cols, program = tl.program_id(0) * COLS + tl.arange(0, COLS), tl.program_id(1)
    sums = tl.zeros((ROWS, COLS), tl.float32)
    for first in range(program * ROWS, num_rows, PROGRAMS * ROWS):
        rows = first + tl.arange(0, ROWS)
        cells = rows[:, None].to(tl.int64) * WIDTH + cols[None, :]
        real = (rows < num_rows)[:, None] & (cols < WIDTH)[None, :]
        bent = tl.load(out + cells, mask=real, other=0.0)
        g = tl.where(bent > 0.0, tl.load(slope + cells, mask=real, other=0.0), 0.0)
        tl.store(to_inner + cells, g, mask=real)
        sums += g.to(tl.float32)
    tl.store(to_bias + program * WIDTH + cols, tl.sum(sums, 0), mask=cols < WIDTH)
