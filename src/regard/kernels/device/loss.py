"""Label-smoothed cross-entropy of rows of logits, and its slope in their place."""

import triton
import triton.language as tl


@triton.jit
def _tell(minimised, surprise, row, logsum, at, level, counts, smoothing):
    """Write what a row costs, whose label has the logit `at`; `level` is their mean."""
    own = logsum - at
    cost = (1.0 - smoothing) * own + smoothing * (logsum - level)
    tl.store(minimised + row, tl.where(counts, cost, 0.0))
    tl.store(surprise + row, tl.where(counts, own, 0.0))


@triton.jit
def _slope(chances, cols, label, counts, share, smoothing):
    """The slopes of some logits of a row, by their probabilities."""
    slope = chances - share
    slope = tl.where(cols == label, slope - (1.0 - smoothing), slope)
    return tl.where(counts, slope, 0.0)


@triton.jit(do_not_specialize=["ignored"])
def at_once(
    logits, labels, minimised, surprise, step, num_tokens, smoothing, ignored, COLS: tl.constexpr
):
    """`in_parts` of a row that fits into a program's registers: read once, and one exponential."""
    row, cols = tl.program_id(0), tl.arange(0, COLS)
    label = tl.load(labels + row).to(tl.int32)
    counts, real = label != ignored, cols < num_tokens
    cells = logits + row.to(tl.int64) * step
    at = tl.load(cells + tl.where(counts, label, 0)).to(tl.float32)
    x = tl.load(cells + cols, mask=real, other=float("-inf")).to(tl.float32)
    level = tl.sum(tl.where(real, x, 0.0), 0) / num_tokens
    top = tl.max(x, 0)
    weights = tl.exp(x - top)
    total = tl.sum(weights, 0)
    _tell(minimised, surprise, row, top + tl.log(total), at, level, counts, smoothing)
    slope = _slope(weights * (1.0 / total), cols, label, counts, smoothing / num_tokens, smoothing)
    tl.store(cells + cols, slope.to(logits.dtype.element_ty), mask=real)


@triton.jit(do_not_specialize=["ignored"])
def in_parts(
    logits, labels, minimised, surprise, step, num_tokens, smoothing, ignored, COLS: tl.constexpr
):
    """The loss and the surprise of one row, whose logits become their own slopes.

    A row whose label is `ignored` costs nothing and has no slope.
    """
    row = tl.program_id(0)
    label = tl.load(labels + row).to(tl.int32)
    counts = label != ignored
    cells = logits + row.to(tl.int64) * step
    at = tl.load(cells + tl.where(counts, label, 0)).to(tl.float32)
    top = tl.full((COLS,), float("-inf"), tl.float32)
    total = tl.zeros((COLS,), tl.float32)
    level = tl.zeros((COLS,), tl.float32)
    for start in range(0, num_tokens, COLS):
        cols = start + tl.arange(0, COLS)
        real = cols < num_tokens
        x = tl.load(cells + cols, mask=real, other=float("-inf")).to(tl.float32)
        higher = tl.maximum(top, x)
        finite = tl.where(higher == float("-inf"), 0.0, higher)
        total = total * tl.exp(top - finite) + tl.exp(x - finite)
        level += tl.where(real, x, 0.0)
        top = higher
    highest = tl.max(top, 0)
    logsum = highest + tl.log(tl.sum(total * tl.exp(top - highest), 0))
    mean = tl.sum(level, 0) / num_tokens
    _tell(minimised, surprise, row, logsum, at, mean, counts, smoothing)
    for start in range(0, num_tokens, COLS):
        cols = start + tl.arange(0, COLS)
        real = cols < num_tokens
        x = tl.load(cells + cols, mask=real, other=float("-inf")).to(tl.float32)
        share = smoothing / num_tokens
        slope = _slope(tl.exp(x - logsum), cols, label, counts, share, smoothing)
        tl.store(cells + cols, slope.to(logits.dtype.element_ty), mask=real)
