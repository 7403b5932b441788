"""Label-smoothed cross-entropy of rows of logits, which are overwritten with their gradients."""

import triton
import triton.language as tl


@triton.jit
def _store_losses(loss, nll, row, logsum, label_logit, mean_logit, counted, smoothing):
    token_nll = logsum - label_logit
    smoothed_loss = (1.0 - smoothing) * token_nll + smoothing * (logsum - mean_logit)
    tl.store(loss + row, tl.where(counted, smoothed_loss, 0.0))
    tl.store(nll + row, tl.where(counted, token_nll, 0.0))


@triton.jit
def _logit_grads(probabilities, cols, label, counted, uniform, smoothing):
    """The gradients of some logits of a row."""
    grad = probabilities - uniform
    grad = tl.where(cols == label, grad - (1.0 - smoothing), grad)
    return tl.where(counted, grad, 0.0)


@triton.jit(do_not_specialize=["ignored"])
def whole_row(logits, labels, loss, nll, step, num_tokens, smoothing, ignored, COLS: tl.constexpr):
    """`row_in_blocks` for a row that fits into registers: one read and one exponential."""
    row, cols = tl.program_id(0), tl.arange(0, COLS)
    label = tl.load(labels + row).to(tl.int32)
    counted, valid = label != ignored, cols < num_tokens
    row_pointer = logits + row.to(tl.int64) * step
    label_logit = tl.load(row_pointer + tl.where(counted, label, 0)).to(tl.float32)
    x = tl.load(row_pointer + cols, mask=valid, other=float("-inf")).to(tl.float32)
    mean_logit = tl.sum(tl.where(valid, x, 0.0), 0) / num_tokens
    row_max = tl.max(x, 0)
    weights = tl.exp(x - row_max)
    row_sum = tl.sum(weights, 0)
    logsum = row_max + tl.log(row_sum)
    _store_losses(loss, nll, row, logsum, label_logit, mean_logit, counted, smoothing)
    uniform = smoothing / num_tokens
    grad = _logit_grads(weights * (1.0 / row_sum), cols, label, counted, uniform, smoothing)
    tl.store(row_pointer + cols, grad.to(logits.dtype.element_ty), mask=valid)


@triton.jit(do_not_specialize=["ignored"])
def row_in_blocks(
    logits, labels, loss, nll, step, num_tokens, smoothing, ignored, COLS: tl.constexpr
):
    """Loss and negative log-likelihood of a row, and gradients; zeros if its label is `ignored`."""
    row = tl.program_id(0)
    label = tl.load(labels + row).to(tl.int32)
    counted = label != ignored
    row_pointer = logits + row.to(tl.int64) * step
    label_logit = tl.load(row_pointer + tl.where(counted, label, 0)).to(tl.float32)
    running_max = tl.full((COLS,), float("-inf"), tl.float32)
    running_sum = tl.zeros((COLS,), tl.float32)
    logit_sums = tl.zeros((COLS,), tl.float32)
    for start in range(0, num_tokens, COLS):
        cols = start + tl.arange(0, COLS)
        valid = cols < num_tokens
        x = tl.load(row_pointer + cols, mask=valid, other=float("-inf")).to(tl.float32)
        new_max = tl.maximum(running_max, x)
        finite_max = tl.where(new_max == float("-inf"), 0.0, new_max)
        running_sum = running_sum * tl.exp(running_max - finite_max) + tl.exp(x - finite_max)
        logit_sums += tl.where(valid, x, 0.0)
        running_max = new_max
    row_max = tl.max(running_max, 0)
    logsum = row_max + tl.log(tl.sum(running_sum * tl.exp(running_max - row_max), 0))
    mean_logit = tl.sum(logit_sums, 0) / num_tokens
    _store_losses(loss, nll, row, logsum, label_logit, mean_logit, counted, smoothing)
    uniform = smoothing / num_tokens
    for start in range(0, num_tokens, COLS):
        cols = start + tl.arange(0, COLS)
        valid = cols < num_tokens
        x = tl.load(row_pointer + cols, mask=valid, other=float("-inf")).to(tl.float32)
        grad = _logit_grads(tl.exp(x - logsum), cols, label, counted, uniform, smoothing)
        tl.store(row_pointer + cols, grad.to(logits.dtype.element_ty), mask=valid)
