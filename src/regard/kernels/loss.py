"""Label-smoothed cross-entropy of logits, which become their own slopes.

Whoever makes logits chunk by chunk, and needs a chunk no more once its slopes are used, has no
float32 tensor of batch times vocabulary, and none at all that outlives a chunk.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from regard.kernels.available import suits
from regard.kernels.launching import COMPILED, device_of, kernels_of, power_of_two

IGNORED = -100
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


class Costs(NamedTuple):
    """Of each row of logits."""

    minimised: Tensor  # (M,) float32
    surprise: Tensor  # (M,) float32: negative log-likelihood in nats


def smoothed_slopes_(logits: Tensor, labels: Tensor, smoothing: float) -> Costs:
    """What `logits` (M, V) cost by `labels` (M,); they become the slopes of the sum of that.

    A row whose label is IGNORED costs nothing and has no slope.
    """
    if suits("loss", logits) and logits.dtype != torch.float64:
        return _kernel(logits, labels, smoothing)
    return plain_slopes_(logits, labels, smoothing)


def plain_slopes_(logits: Tensor, labels: Tensor, smoothing: float) -> Costs:
    """`smoothed_slopes_` as its formula reads."""
    precise = torch.promote_types(logits.dtype, torch.float32)
    counts, known = labels != IGNORED, labels.clamp(min=0)[:, None]  # (M,), (M, 1)
    slopes = logits.to(precise)  # (M, V): logits, as yet
    top, at, level = slopes.amax(-1), slopes.gather(1, known)[:, 0], slopes.mean(-1)  # (M,)
    torch.softmax(slopes, -1, out=slopes)  # in its place: fresh memory takes longer
    logsum = top - slopes.amax(-1).log()  # (M,) the largest of them is never 0
    own = logsum - at  # (M,)
    costs = own
    if smoothing:
        costs = torch.lerp(own, logsum - level, smoothing)
        slopes.sub_(smoothing / logits.shape[1])
    slopes.scatter_add_(1, known, torch.full_like(own, smoothing - 1)[:, None])
    if logits.device.type != "cpu" or not counts.all():  # only a CPU is asked without waiting
        slopes, costs, own = slopes * counts[:, None], costs * counts, own * counts
    logits.copy_(slopes)
    return Costs(costs, own)


def _kernel(logits: Tensor, labels: Tensor, smoothing: float) -> Costs:
    if logits.stride(1) != 1:
        raise ValueError(f"a row of logits must lie side by side, got strides {logits.stride()}")
    rows, size = logits.shape
    costs, own = (labels.new_empty(rows, dtype=torch.float32) for _ in range(2))
    kernels = kernels_of("loss")
    cols = power_of_two(size)
    kernel, warps = kernels.at_once, max(4, cols // (32 * tiles.each))
    if size > tiles.whole:
        kernel, cols, warps = kernels.in_parts, min(tiles.cols, cols), tiles.warps
    with device_of(logits):
        kernel[(rows,)](
            logits, labels.contiguous(), costs, own, logits.stride(0), size, smoothing, IGNORED,
            COLS=cols, num_warps=warps, **COMPILED,
        )  # fmt: skip
    return Costs(costs, own)
