"""Training losses: cross-entropy with label smoothing, in chunks of rows where the model allows it,
or with soft labels; and the squared error.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.kernels import cross_entropy
from regard.kernels.cross_entropy import IGNORE_INDEX
from regard.kernels.dispatch import use_kernel
from regard.models.contracts import AnyModel, OutputProjection
from regard.types import AnyBatch, Features, Routing

CHUNK_LOGITS_CPU = 1 << 22  # logits of a chunk on a CPU: as many as its caches hold
CHUNK_LOGITS_GPU = 1 << 28  # enough to keep any device busy: half a gigabyte in bfloat16
ROW_MULTIPLE = 128  # rows of larger chunks are a multiple, like the tiles of matrix products
COLUMN_MULTIPLE = 64  # columns of logits on a GPU: rows that are not aligned multiply at half speed


class Loss(NamedTuple):
    """Sums over the target tokens of a batch."""

    loss: Tensor  # ()
    nll: Tensor  # () negative log-likelihood in nats: its mean is the log of the perplexity
    routings: tuple[Routing, ...] = ()  # how the model's expert layers distributed the tokens


LossFn = Callable[[AnyModel, AnyBatch], Loss]


def batch_loss(
    model: AnyModel,
    batch: AnyBatch,
    smoothing: float,
    *,
    consistency: float = 0.0,
    training_features: Callable[[AnyBatch], Features] | None = None,
) -> Loss:
    """The cross-entropy of a batch, plus the model's penalty and its experts' balance losses.

    The features are those of `training_features`, if given, or of the model's method.

    With `consistency` α, (L₁ + L₂ + α D) / 2 of two passes with different dropout (R-Drop, Liang et
    al. 2021); the factor ½ leaves the weight of a token the same.
    """
    copies = 2 if consistency else 1
    inputs = batch.duplicated() if consistency else batch
    compute = training_features or model.training_features
    features, routings, penalty = compute(inputs)  # (copies * M, D)
    compiled = torch.compiler.is_compiling()  # the compiler decides which logits are kept
    output = None if consistency or compiled else model.output_layer()
    if output is not None:
        loss, nll, _ = chunked_loss(features, output, inputs.labels, smoothing)
    else:
        logits = model.logits(features)  # (copies * M, V)
        loss, nll, _ = smoothed_cross_entropy(logits, inputs.labels, smoothing)
        if consistency:
            first, second = logits.chunk(2)  # (M, V) each
            loss = loss + consistency * symmetric_kl(first, second, batch.labels)
    loss = loss / copies + batch.num_labels * sum(routing.balance_loss for routing in routings)
    if penalty is not None:
        loss = loss + batch.num_labels * penalty
    return Loss(loss, nll / copies, routings)


class LossModule(nn.Module):
    """A model and its loss, as one module."""

    def __init__(self, loss: LossFn, model: AnyModel) -> None:
        super().__init__()
        self.loss, self.model = loss, model

    def forward(self, batch: AnyBatch) -> Loss:
        return self.loss(self.model, batch)


def squared_error_loss(model: AnyModel, batch: AnyBatch) -> Loss:
    """The squared error of a batch whose labels (M, F) are numbers: the mean over F, summed over M,
    plus the model's penalty. There is no likelihood: `nll` is the loss without the penalty.
    """
    features, routings, penalty = model.training_features(batch)  # (M, D)
    errors = model.logits(features).float() - batch.labels  # (M, F)
    loss = total = errors.square().mean(-1).sum()
    if penalty is not None:
        loss = loss + batch.num_labels * penalty
    return Loss(loss, total.detach(), routings)


def soft_label_loss(model: AnyModel, batch: AnyBatch, smoothing: float) -> Loss:
    """The cross-entropy of a batch whose labels (M, V) are probabilities of classes, such as those
    of mixed pictures, plus the model's penalty; `nll` is the loss without smoothing and penalty.

    For a label with all probability on one class, the loss is that of `batch_loss`.
    """
    features, routings, penalty = model.training_features(batch)  # (M, D)
    logits = model.logits(features)  # (M, V)
    logp = F.log_softmax(logits, -1, dtype=torch.promote_types(logits.dtype, torch.float32))
    loss = total = -(batch.labels * logp).sum()
    if smoothing:
        loss = (1 - smoothing) * total - smoothing * logp.mean(-1).sum()
    if penalty is not None:
        loss = loss + batch.num_labels * penalty
    return Loss(loss, total.detach(), routings)


def smoothed_cross_entropy(logits: Tensor, labels: Tensor, smoothing: float) -> Loss:
    """Cross-entropy of logits (M, V) with labels (M,), where a share `smoothing` of each label's
    probability is spread evenly over all V (Szegedy et al. 2016). Rows labelled IGNORE_INDEX do not
    count.
    """
    logp = F.log_softmax(logits, -1, dtype=torch.promote_types(logits.dtype, torch.float32))
    nll = F.nll_loss(logp, labels, reduction="sum")
    if smoothing == 0:
        return Loss(nll, nll.detach())
    uniform = -(logp.mean(-1) * (labels != IGNORE_INDEX)).sum()
    return Loss((1 - smoothing) * nll + smoothing * uniform, nll.detach())


def symmetric_kl(first: Tensor, second: Tensor, labels: Tensor) -> Tensor:
    """The mean of both Kullback-Leibler divergences of two softmaxes (M, V), summed over the rows
    whose label (M,) is not IGNORE_INDEX: ().
    """
    precise = torch.promote_types(first.dtype, torch.float32)
    p, q = (F.log_softmax(logits, -1, dtype=precise) for logits in (first, second))
    gaps = (p.exp() - q.exp()) * (p - q)  # (M, V)
    return gaps.masked_fill((labels == IGNORE_INDEX)[:, None], 0.0).sum() / 2


def chunked_loss(
    features: Tensor, output: OutputProjection, labels: Tensor, smoothing: float
) -> Loss:
    """`smoothed_cross_entropy` of the logits of `features` (M, D), without holding all of them.

    Chunk by chunk of rows, the forward pass replaces the logits by their gradients and computes the
    gradients of the inputs from these. Logits are in autocast's precision, if enabled; the
    gradients of the output layer are summed in float32.
    """
    inputs = (features, output.weight, output.bias)
    need_grad = torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in inputs)
    return Loss(*_ChunkedCrossEntropy.apply(*inputs, labels, smoothing, need_grad))  # type: ignore[no-untyped-call]


class _ChunkedCrossEntropy(torch.autograd.Function):
    """Features (M, D), weight (V, D), bias (V,) -> loss and negative log-likelihood."""

    @staticmethod
    def forward(
        ctx: Any,
        features: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        labels: Tensor,
        smoothing: float,
        need_grad: bool,
    ) -> tuple[Tensor, Tensor]:
        kind = features.device.type
        dtype = torch.promote_types(features.dtype, weight.dtype)
        if torch.is_autocast_enabled(kind):
            dtype = torch.get_autocast_dtype(kind)
        sum_dtype = torch.promote_types(dtype, torch.float32)
        size = len(weight)  # V
        padding = -size % COLUMN_MULTIPLE if kind == "cuda" else 0  # unused columns, V' - V
        cast_weight, cast_bias = (
            None if x is None else F.pad(x.to(dtype), (0, 0) * (x.ndim - 1) + (0, padding))
            for x in (weight, bias)
        )
        assert cast_weight is not None
        features_grad = torch.empty_like(features, dtype=dtype) if need_grad else None
        weight_grad: Tensor | None = None
        bias_grad: Tensor | None = None
        if need_grad and bias is not None:
            bias_grad = torch.zeros_like(bias, dtype=sum_dtype)
        totals = features.new_zeros(2, dtype=sum_dtype)
        with torch.autocast(kind, enabled=False):
            for rows in _chunks(len(labels), len(weight), on_cpu=kind == "cpu"):
                x = features[rows].to(dtype)  # (R, D)
                grads = F.linear(x, cast_weight, cast_bias)  # (R, V'): logits until the next line
                losses, nll = cross_entropy_and_grad_(grads[:, :size], labels[rows], smoothing)
                totals += torch.stack([losses.sum(), nll.sum()])
                if features_grad is not None:
                    torch.mm(grads, cast_weight, out=features_grad[rows])
                    part = (grads.mT @ x)[:size]  # (V, D)
                    if weight_grad is None:
                        weight_grad = part.to(sum_dtype)
                    else:
                        weight_grad.add_(part)
                if bias_grad is not None:
                    bias_grad += grads[:, :size].sum(0, dtype=sum_dtype)
        if need_grad and weight_grad is None:  # there were no rows
            weight_grad = torch.zeros_like(weight, dtype=sum_dtype)
        ctx.save_for_backward(features_grad, weight_grad, bias_grad)
        ctx.dtypes = features.dtype, weight.dtype, None if bias is None else bias.dtype
        loss, nll = totals.unbind()
        ctx.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        saved = zip(ctx.saved_tensors, ctx.dtypes, strict=True)
        grads = (None if x is None else (x * grad).to(dtype) for x, dtype in saved)
        return *grads, None, None, None


def _chunks(rows: int, vocabulary: int, *, on_cpu: bool) -> list[slice]:
    """Slices of consecutive rows."""
    size = max(1, (CHUNK_LOGITS_CPU if on_cpu else CHUNK_LOGITS_GPU) // vocabulary)
    if size > ROW_MULTIPLE:
        size -= size % ROW_MULTIPLE
    return [slice(first, first + size) for first in range(0, rows, size)]


def cross_entropy_and_grad_(
    logits: Tensor, labels: Tensor, smoothing: float
) -> tuple[Tensor, Tensor]:
    """The losses and negative log-likelihoods (M,) of `logits` (M, V) for `labels` (M,).

    `logits` are overwritten with the gradients of the sum of the losses, zeros in rows labelled
    IGNORE_INDEX.
    """
    if use_kernel("cross_entropy", logits) and logits.dtype != torch.float64:
        return cross_entropy.cross_entropy_and_grad_(logits, labels, smoothing)
    precise = torch.promote_types(logits.dtype, torch.float32)
    counted, safe_labels = labels != IGNORE_INDEX, labels.clamp(min=0)[:, None]  # (M,), (M, 1)
    grads = logits.to(precise)  # (M, V): logits until the softmax
    max_logits, mean_logits = grads.amax(-1), grads.mean(-1)  # (M,) each
    label_logits = grads.gather(1, safe_labels)[:, 0]  # (M,)
    torch.softmax(grads, -1, out=grads)  # in place: allocating memory takes longer
    logsum = max_logits - grads.amax(-1).log()  # (M,) the largest probability is never 0
    nll = losses = logsum - label_logits  # (M,)
    if smoothing:
        losses = torch.lerp(nll, logsum - mean_logits, smoothing)
        grads.sub_(smoothing / logits.shape[1])
    grads.scatter_add_(1, safe_labels, torch.full_like(nll, smoothing - 1)[:, None])
    if logits.device.type != "cpu" or not counted.all():  # on a GPU, reading it would wait
        grads, losses, nll = grads * counted[:, None], losses * counted, nll * counted
    logits.copy_(grads)
    return losses, nll
