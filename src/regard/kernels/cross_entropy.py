"""Label-smoothed cross-entropy of logits, which are overwritten with their gradients."""

import torch
from torch import Tensor

from regard.kernels.dispatch import launch, next_power_of_two

IGNORE_INDEX = -100
"""The label of a row that does not count, as in torch."""
MAX_WHOLE_ROW = 1 << 15
"""Rows of at most this many logits are held in registers and read once; longer ones are read
twice."""
BLOCK, BLOCK_WARPS = 2048, 16
"""Logits that a program handles at a time in longer rows, and its warps: of 20 combinations the
fastest for 50,257 logits on an H200 (504 microseconds for 5,248 rows; 4096 with 8 take 841)."""


def cross_entropy_and_grad_(
    logits: Tensor, labels: Tensor, smoothing: float
) -> tuple[Tensor, Tensor]:
    """The losses and negative log-likelihoods (M,) of `logits` (M, V) for `labels` (M,).

    `logits` become the gradients of the summed losses. A row labelled IGNORE_INDEX has zeros.
    """
    if logits.stride(1) != 1:
        raise ValueError(f"a row of logits must lie side by side, got strides {logits.stride()}")
    rows, size = logits.shape
    losses, nll = (labels.new_empty(rows, dtype=torch.float32) for _ in range(2))
    cols = next_power_of_two(size)
    kernel, warps = "whole_row", max(4, cols // 2048)
    if size > MAX_WHOLE_ROW:
        kernel, cols, warps = "row_in_blocks", BLOCK, BLOCK_WARPS
    launch(
        "cross_entropy", kernel, (rows,), logits, labels.contiguous(), losses, nll,
        logits.stride(0), size, smoothing, IGNORE_INDEX, COLS=cols, num_warps=warps, on=logits,
    )  # fmt: skip
    return losses, nll
