"""How surprised a model is by the right answer."""

import math
from collections.abc import Iterable
from typing import NamedTuple

import torch
import torch.nn.functional as F

from regard.errors import CorpusError
from regard.models.contracts import AnyModel
from regard.types import Batch


class Perplexity(NamedTuple):
    """exp of the mean negative log-likelihood of a target token, EOS included."""

    value: float
    num_tokens: int


@torch.inference_mode()
def perplexity(model: AnyModel, batches: Iterable[Batch]) -> Perplexity:
    """The perplexity of `model` on all tokens of `batches`, however they are batched.

    Per token of this model's vocabulary: models that cut text differently cannot be compared.
    """
    where = next(model.parameters()).device
    was_training = model.training
    model.eval()
    try:
        total, num_tokens = 0.0, 0
        for batch in batches:
            total += _surprise(model, batch.to(where))
            num_tokens += batch.num_tokens
    finally:
        model.train(was_training)
    if not num_tokens:
        raise CorpusError("perplexity needs at least one pair of sentences, found none")
    mean = total / num_tokens
    return Perplexity(math.inf if mean > 700 else math.exp(mean), num_tokens)


def _surprise(model: AnyModel, batch: Batch) -> float:
    """Negative log-likelihood, in nats, of all labels."""
    logits = model.logits(model.teach(batch).features)  # (M, V)
    precise = logits.to(torch.promote_types(logits.dtype, torch.float32))
    losses = F.cross_entropy(precise, batch.labels, reduction="none")  # (M,)
    return float(losses.cpu().double().sum())  # on the CPU: not every device has float64
