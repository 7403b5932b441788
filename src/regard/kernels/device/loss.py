"""Label-smoothed cross-entropy of rows of logits, and its slope in their place."""

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["ignored"])
def smoothed_cross_entropy(
    logits, labels, minimised, surprise, step, num_tokens, smoothing, ignored, COLS: tl.constexpr
):
    """The loss and the surprise of one row, whose logits become their own slopes.

    A row whose label is `ignored` costs nothing and has no slope.
    """
    row = tl.program_id(0)
    label = tl.load(labels + row).to(tl.int32)
    counts = label != ignored
    cells = logits + row.to(tl.int64) * step
    top = tl.full((COLS,), float("-inf"), tl.float32)
    total = tl.zeros((COLS,), tl.float32)
    level = tl.zeros((COLS,), tl.float32)
    at = tl.zeros((COLS,), tl.float32)
    for start in range(0, num_tokens, COLS):
        cols = start + tl.arange(0, COLS)
        real = cols < num_tokens
        x = tl.load(cells + cols, mask=real, other=float("-inf")).to(tl.float32)
        higher = tl.maximum(top, x)
        finite = tl.where(higher == float("-inf"), 0.0, higher)
        total = total * tl.exp(top - finite) + tl.exp(x - finite)
        level += tl.where(real, x, 0.0)
        at += tl.where(cols == label, x, 0.0)
        top = higher
    highest = tl.max(top, 0)
    logsum = highest + tl.log(tl.sum(total * tl.exp(top - highest), 0))
    own = logsum - tl.sum(at, 0)
    mean = logsum - tl.sum(level, 0) / num_tokens
    tl.store(minimised + row, tl.where(counts, (1.0 - smoothing) * own + smoothing * mean, 0.0))
    tl.store(surprise + row, tl.where(counts, own, 0.0))
    share = smoothing / num_tokens
    for start in range(0, num_tokens, COLS):
        cols = start + tl.arange(0, COLS)
        real = cols < num_tokens
        x = tl.load(cells + cols, mask=real, other=float("-inf")).to(tl.float32)
        slope = tl.exp(x - logsum) - share
        slope = tl.where(cols == label, slope - (1.0 - smoothing), slope)
        slope = tl.where(counts, slope, 0.0)
        tl.store(cells + cols, slope.to(logits.dtype.element_ty), mask=real)
