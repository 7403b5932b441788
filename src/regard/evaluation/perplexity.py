"""How surprised a model is by the right answer."""

import math
from collections.abc import Iterable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.errors import CorpusError
from regard.models.contracts import AnyModel
from regard.types import Batch

CHUNK_ROWS = 1024
"""Target tokens whose logits are made at a time: those of a batch are hundreds of megabytes."""


MAX_NATS = 700.0
"""Nats whose exp is still a number: a larger mean counts as this one in a perplexity."""


class Perplexity(NamedTuple):
    """exp of the mean negative log-likelihood of a target token, EOS included."""

    value: float
    """At most exp(700), some 10 to the power of 304; not a number only if `loss` is none."""
    num_tokens: int
    loss: float
    """The mean negative log-likelihood itself, in nats; not finite if a weight is not."""


@torch.inference_mode()
def perplexity(model: AnyModel, batches: Iterable[Batch]) -> Perplexity:
    """The perplexity of `model` on all tokens of `batches`, however they are batched.

    Per token of this model's vocabulary: models that cut text differently cannot be compared.
    """
    device = next(model.parameters()).device
    was_training = model.training
    model.eval()
    try:
        total, num_tokens = 0.0, 0
        for batch in batches:
            total += _batch_nll(model, batch.to(device))
            num_tokens += batch.num_tokens
    finally:
        model.train(was_training)
    if not num_tokens:
        raise CorpusError("perplexity needs at least one pair of sentences, found none")
    mean = total / num_tokens
    return Perplexity(math.exp(mean if math.isnan(mean) else min(mean, MAX_NATS)), num_tokens, mean)


def _batch_nll(model: AnyModel, batch: Batch) -> float:
    """Negative log-likelihood, in nats, of all labels."""
    features = model.training_features(batch).features  # (M, D)
    parts = zip(
        torch.split(features, CHUNK_ROWS), torch.split(batch.labels, CHUNK_ROWS), strict=True
    )
    losses = torch.cat([_token_nll(model.logits(some), labels) for some, labels in parts])  # (M,)
    return float(losses.cpu().double().sum())  # on the CPU: not every device has float64


def _token_nll(logits: Tensor, labels: Tensor) -> Tensor:
    """That of each label (R,) by its row of `logits` (R, V): (R,)."""
    float_logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    return F.cross_entropy(float_logits, labels, reduction="none")
