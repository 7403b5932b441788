"""The gradients of an activation's input and of the bias before it, in one pass."""

import triton
import triton.language as tl

SQRT_HALF: tl.constexpr = tl.constexpr(0.7071067811865476)
INVERSE_SQRT_2_PI: tl.constexpr = tl.constexpr(0.3989422804014327)


@triton.jit(do_not_specialize=["num_rows"])
def backward(
    saved, grad, inner_grad, bias_grad, num_rows,
    GELU: tl.constexpr, WIDTH: tl.constexpr,
    ROWS: tl.constexpr, COLS: tl.constexpr, PROGRAMS: tl.constexpr,
):  # fmt: skip
    """`inner_grad`, and this program's share `bias_grad` in its column sums.

    With GELU, `saved` is the activation's input z, and `inner_grad` is `grad` gelu'(z), where
    gelu'(z) = Φ(z) + z φ(z). Otherwise `saved` is ReLU's output, and `inner_grad` is `grad` where
    that is positive.
    """
    cols, program = tl.program_id(0) * COLS + tl.arange(0, COLS), tl.program_id(1)
    sums = tl.zeros((ROWS, COLS), tl.float32)
    for first in range(program * ROWS, num_rows, PROGRAMS * ROWS):
        rows = first + tl.arange(0, ROWS)
        offsets = rows[:, None].to(tl.int64) * WIDTH + cols[None, :]
        valid = (rows < num_rows)[:, None] & (cols < WIDTH)[None, :]
        z = tl.load(saved + offsets, mask=valid, other=0.0).to(tl.float32)
        g = tl.load(grad + offsets, mask=valid, other=0.0).to(tl.float32)
        if GELU:
            cdf = 0.5 * (1.0 + tl.erf(z * SQRT_HALF))
            density = tl.exp(-0.5 * z * z) * INVERSE_SQRT_2_PI
            g = g * (cdf + z * density)
        else:
            g = tl.where(z > 0.0, g, 0.0)
        tl.store(inner_grad + offsets, g.to(inner_grad.dtype.element_ty), mask=valid)
        sums += g
    tl.store(bias_grad + program * WIDTH + cols, tl.sum(sums, 0), mask=cols < WIDTH)
