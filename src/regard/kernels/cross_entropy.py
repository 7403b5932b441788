"""Label-smoothed cross-entropy of logits, which become their own slopes.

Whoever makes logits chunk by chunk, and needs a chunk no more once its slopes are used, has no
float32 tensor of batch times vocabulary, and none at all that outlives a chunk.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from regard.kernels.dispatch import use_kernel
from regard.kernels.launch import LAUNCH_OPTIONS, device_of, next_power_of_two, triton_module

IGNORE_INDEX = -100
"""The label of a row that counts for nothing, as torch has it."""


class Tiles(NamedTuple):
    """How the work of the kernel is cut."""

    cols: int = 4096
    """Logits that a program has at a time, where a row is longer than `whole`."""
    warps: int = 8
    whole: int = 1 << 15
    """A row of at most so many logits is read once: a longer one finds too few registers."""
    each: int = 64
    """Logits that a thread has then."""


tiles = Tiles()
"""What is used; whoever has measured others puts them here."""


class TokenLosses(NamedTuple):
    """Of each row of logits."""

    loss: Tensor  # (M,) float32
    nll: Tensor  # (M,) float32: negative log-likelihood in nats


def cross_entropy_and_grad_(logits: Tensor, labels: Tensor, smoothing: float) -> TokenLosses:
    """What `logits` (M, V) cost by `labels` (M,); they become the slopes of the sum of that.

    A row whose label is IGNORED costs nothing and has no slope.
    """
    if use_kernel("cross_entropy", logits) and logits.dtype != torch.float64:
        return _launch(logits, labels, smoothing)
    return plain_cross_entropy_and_grad_(logits, labels, smoothing)


def plain_cross_entropy_and_grad_(logits: Tensor, labels: Tensor, smoothing: float) -> TokenLosses:
    """`smoothed_slopes_` as its formula reads."""
    precise = torch.promote_types(logits.dtype, torch.float32)
    counted, safe_labels = labels != IGNORE_INDEX, labels.clamp(min=0)[:, None]  # (M,), (M, 1)
    grads = logits.to(precise)  # (M, V): logits, as yet
    max_logits, label_logits, mean_logits = (
        grads.amax(-1),
        grads.gather(1, safe_labels)[:, 0],
        grads.mean(-1),
    )  # (M,)
    torch.softmax(grads, -1, out=grads)  # in its place: fresh memory takes longer
    logsum = max_logits - grads.amax(-1).log()  # (M,) the largest of them is never 0
    token_nll = logsum - label_logits  # (M,)
    losses = token_nll
    if smoothing:
        losses = torch.lerp(token_nll, logsum - mean_logits, smoothing)
        grads.sub_(smoothing / logits.shape[1])
    grads.scatter_add_(1, safe_labels, torch.full_like(token_nll, smoothing - 1)[:, None])
    if logits.device.type != "cpu" or not counted.all():  # only a CPU is asked without waiting
        grads, losses, token_nll = grads * counted[:, None], losses * counted, token_nll * counted
    logits.copy_(grads)
    return TokenLosses(losses, token_nll)


def _launch(logits: Tensor, labels: Tensor, smoothing: float) -> TokenLosses:
    if logits.stride(1) != 1:
        raise ValueError(f"a row of logits must lie side by side, got strides {logits.stride()}")
    rows, size = logits.shape
    losses, token_nll = (labels.new_empty(rows, dtype=torch.float32) for _ in range(2))
    kernels = triton_module("cross_entropy")
    cols = next_power_of_two(size)
    kernel, warps = kernels.whole_row, max(4, cols // (32 * tiles.each))
    if size > tiles.whole:
        kernel, cols, warps = kernels.row_in_blocks, min(tiles.cols, cols), tiles.warps
    with device_of(logits):
        kernel[(rows,)](
            logits, labels.contiguous(), losses, token_nll, logits.stride(0), size, smoothing,
            IGNORE_INDEX,
            COLS=cols, num_warps=warps, **LAUNCH_OPTIONS,
        )  # fmt: skip
    return TokenLosses(losses, token_nll)
