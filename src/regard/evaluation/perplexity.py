"""Perplexity of a model on reference translations."""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from regard.batching.collate import collate
from regard.batching.sampler import length_sorted_batches
from regard.errors import CorpusError
from regard.models.contracts import AnyModel
from regard.text.ragged import Ids
from regard.types import AnyBatch

CHUNK_ROWS = 1024  # tokens whose logits are computed at once: all would take too much memory
MAX_NATS = 700.0  # limit of mean losses in a perplexity: exp of more would overflow


class Perplexity(NamedTuple):
    """exp of the mean negative log-likelihood of a target token, EOS included."""

    value: float  # at most exp(700); NaN only if `loss` is
    num_tokens: int
    loss: float  # the mean negative log-likelihood in nats; not finite if a weight is not


@torch.inference_mode()
def perplexity(model: AnyModel, batches: Iterable[AnyBatch]) -> Perplexity:
    """The perplexity per token; do not compare it between models with different tokenizers."""
    device = next(model.parameters()).device
    was_training = model.training
    model.eval()
    try:
        total, num_tokens = 0.0, 0
        for batch in batches:
            total += _batch_nll(model, batch.to(device))
            num_tokens += batch.num_labels
    finally:
        model.train(was_training)
    if not num_tokens:
        raise CorpusError("perplexity needs at least one token to predict, found none")
    mean = total / num_tokens
    return Perplexity(math.exp(mean if math.isnan(mean) else min(mean, MAX_NATS)), num_tokens, mean)


def _batch_nll(model: AnyModel, batch: AnyBatch) -> float:
    """Negative log-likelihood, in nats, of all labels."""
    return float(token_losses(model, batch).cpu().double().sum())  # not all devices have float64


@torch.inference_mode()
def all_token_losses(model: AnyModel, batches: Iterable[AnyBatch]) -> NDArray[np.float64]:
    """Negative log-likelihood, in nats, of each label of all batches, by a model in evaluation
    mode: (N,).
    """
    device = next(model.parameters()).device
    found = [token_losses(model, batch.to(device)).cpu().double() for batch in batches]
    return torch.cat(found).numpy()


def token_losses(model: AnyModel, batch: AnyBatch) -> Tensor:
    """Negative log-likelihood (M,), in nats, of each label."""
    features = model.training_features(batch).features  # (M, D)
    sides = (torch.split(side, CHUNK_ROWS) for side in (features, batch.labels))
    losses = []
    for rows, labels in zip(*sides, strict=True):
        logits = model.logits(rows)  # (R, V)
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        losses.append(F.cross_entropy(logits, labels, reduction="none"))  # (R,)
    return torch.cat(losses)


@torch.inference_mode()
def sequence_log_probs(
    model: AnyModel, sources: Sequence[Ids], targets: Sequence[Ids], *, budget: int
) -> list[float]:
    """The log-probability of each target, EOS included, in batches of at most `budget` positions.

    The model is in evaluation mode.
    """
    device = next(model.parameters()).device
    lengths = [np.array([len(ids) + 1 for ids in side]) for side in (sources, targets)]
    found = np.zeros(len(targets))
    for rows in length_sorted_batches(*lengths, budget=budget):
        batch = collate([sources[row] for row in rows], [targets[row] for row in rows]).to(device)
        losses = token_losses(model, batch).cpu().double()  # (M,)
        ends = np.cumsum(lengths[1][rows])  # the index after each EOS
        sums = np.append(0.0, losses.cumsum(0).numpy()[ends - 1])
        found[rows] = -np.diff(sums)
    return [float(one) for one in found]
