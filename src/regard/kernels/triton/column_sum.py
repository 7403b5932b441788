"""The sum of the rows of a matrix."""

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["num_rows"])
def column_sums(
    x, to, num_rows, step,
    WIDTH: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr, PROGRAMS: tl.constexpr,
):  # fmt: skip
    """This program's share in the sums of its columns."""
    cols, program = tl.program_id(0) * COLS + tl.arange(0, COLS), tl.program_id(1)
    sums = tl.zeros((ROWS, COLS), tl.float32)
    for first in range(program * ROWS, num_rows, PROGRAMS * ROWS):
        rows = first + tl.arange(0, ROWS)
        cells = rows[:, None].to(tl.int64) * step + cols[None, :]
        real = (rows < num_rows)[:, None] & (cols < WIDTH)[None, :]
        sums += tl.load(x + cells, mask=real, other=0.0).to(tl.float32)
    tl.store(to + program * WIDTH + cols, tl.sum(sums, 0), mask=cols < WIDTH)
