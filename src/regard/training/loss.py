"""How wrong the model is."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.kernels.cross_entropy import IGNORE_INDEX
from regard.models.contracts import AnyModel
from regard.training.chunked_loss import chunked_loss
from regard.types import Batch, Routing


class Loss(NamedTuple):
    """Sums over the target tokens of a batch."""

    loss: Tensor  # ()
    nll: Tensor  # () negative log-likelihood in nats: its mean is the log of the perplexity
    routings: tuple[Routing, ...] = ()
    """How the model's layers of experts shared out the tokens."""


def smoothed_cross_entropy(logits: Tensor, labels: Tensor, smoothing: float) -> Loss:
    """Cross-entropy of (M, V) with (M,) when `smoothing` of each label goes to all V alike.

    Label smoothing as Szegedy et al. 2016, which Vaswani et al. 2017 use with 0.1. A label that is
    IGNORED counts for nothing.
    """
    logp = F.log_softmax(logits, -1, dtype=torch.promote_types(logits.dtype, torch.float32))
    nll = F.nll_loss(logp, labels, reduction="sum")
    if smoothing == 0:
        return Loss(nll, nll.detach())
    uniform = -(logp.mean(-1) * (labels != IGNORE_INDEX)).sum()
    return Loss((1 - smoothing) * nll + smoothing * uniform, nll.detach())


def symmetric_kl(one: Tensor, other: Tensor, labels: Tensor) -> Tensor:
    """The mean of both Kullback-Leibler divergences of two softmaxes (M, V), summed over M: ().

    A row whose label (M,) is IGNORED counts for nothing.
    """
    precise = torch.promote_types(one.dtype, torch.float32)
    p, q = (F.log_softmax(logits, -1, dtype=precise) for logits in (one, other))
    gaps = (p.exp() - q.exp()) * (p - q)  # (M, V)
    return gaps.masked_fill((labels == IGNORE_INDEX)[:, None], 0.0).sum() / 2


def batch_loss(
    model: AnyModel, batch: Batch, smoothing: float, *, consistency: float = 0.0
) -> Loss:
    """The loss of a batch: its likelihood, and what its layers of experts add to it.

    The output layer sees the real positions alone. With `consistency` every pair is seen twice,
    under two draws of dropout, and their disagreement costs (Liang et al. 2021, R-Drop): where
    they have L₁ + L₂ + α D, this is the half of it, so that a token weighs what it does without.
    """
    copies = 2 if consistency else 1
    inputs = batch.duplicated() if consistency else batch
    features, routings = model.training_features(inputs)  # (copies * M, D)
    compiled = torch.compiler.is_compiling()  # then the compiler decides what is kept
    output = None if consistency or compiled else model.output_layer()
    if output is not None:
        loss, nll = chunked_loss(features, output, inputs.labels, smoothing)
    else:
        logits = model.logits(features)  # (copies * M, V)
        loss, nll, _ = smoothed_cross_entropy(logits, inputs.labels, smoothing)
        if consistency:
            one, other = logits.chunk(2)  # (M, V) each
            loss = loss + consistency * symmetric_kl(one, other, batch.labels)
    loss = loss / copies + batch.num_tokens * sum(one.balance_loss for one in routings)
    return Loss(loss, nll / copies, routings)
