"""Scores of masked language models: cross-entropy, accuracy and pseudo-perplexity."""

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from regard.errors import CorpusError
from regard.evaluation.perplexity import CHUNK_ROWS, MAX_NATS, all_token_losses
from regard.kernels.cross_entropy import IGNORE_INDEX
from regard.models.contracts import MaskedLanguageModel
from regard.text.special_tokens import SPECIAL_PIECES
from regard.types import Batch, Padded


class MaskedScores(NamedTuple):
    """Scores on the masked tokens of some batches."""

    loss: float  # nats a token
    accuracy: float
    num_tokens: int
    next_sentence_accuracy: float | None  # None: no row had a label


@torch.inference_mode()
def masked_scores(model: MaskedLanguageModel, batches: Iterable[Batch[Padded]]) -> MaskedScores:
    """The scores of a model in evaluation mode."""
    device = next(model.parameters()).device
    totals = torch.zeros(5, dtype=torch.float64)  # nats, right, tokens, right rows, rows
    for batch in batches:
        totals += _batch_totals(model, batch.to(device)).cpu()
    nats, right, tokens, right_rows, rows = totals.tolist()
    if not tokens:
        raise CorpusError("there is no token to mask: the text has only ends of documents")
    accuracy = right_rows / rows if rows else None
    return MaskedScores(nats / tokens, right / tokens, int(tokens), accuracy)


def _batch_totals(model: MaskedLanguageModel, batch: Batch[Padded]) -> Tensor:
    """Nats, right tokens, tokens, right rows, rows: (5,)."""
    assert batch.positions is not None
    states = model.token_states(batch.inputs)  # (B, S, D)
    features = model.features_at(states, batch.positions)  # (M, D)
    sides = (torch.split(side, CHUNK_ROWS) for side in (features, batch.labels))
    totals = torch.zeros(5, dtype=torch.float32, device=states.device)
    for rows, labels in zip(*sides, strict=True):
        logits = model.logits(rows).float()  # (R, V)
        nats = F.cross_entropy(logits, labels, reduction="sum", ignore_index=IGNORE_INDEX)
        right, real = logits.argmax(-1) == labels, labels != IGNORE_INDEX
        totals[:3] += torch.stack([nats, right.sum(), real.sum()])
    next_logits = None if batch.row_labels is None else model.next_sentence_logits(states)
    if next_logits is not None and batch.row_labels is not None:
        totals[3] = (next_logits.argmax(-1) == batch.row_labels).sum()
        totals[4] = len(batch.row_labels)
    return totals


@torch.inference_mode()
def pseudo_losses(
    model: MaskedLanguageModel, windows: NDArray[np.int64], *, rows: int
) -> NDArray[np.float64]:
    """The negative log-likelihood (N,), in nats, of each token of `windows` except special ones,
    with only that token masked. A batch has `rows` such windows.
    """
    if not (windows >= len(SPECIAL_PIECES)).any():
        raise CorpusError("there is no token to mask: the text has only ends of documents")
    return all_token_losses(model, each_token_masked(windows, model.mask_id, rows=rows))


def pseudo_perplexity(losses: NDArray[np.float64]) -> float:
    """exp(-1/N Σ_i log p(y_i | all others of its window)) (Salazar et al. 2020), of the losses of
    `pseudo_losses`.
    """
    return math.exp(min(float(losses.mean()), MAX_NATS))


def each_token_masked(
    windows: NDArray[np.int64], mask_id: int, *, rows: int
) -> Iterator[Batch[Padded]]:
    """Batches of at most `rows` in which each token of `windows` (N, S) is masked once, alone."""
    sources, columns = np.nonzero(windows >= len(SPECIAL_PIECES))  # (M,) each
    for begin in range(0, len(sources), rows):
        ids = windows[sources[begin : begin + rows]]  # (B, S)
        masked, row = columns[begin : begin + rows], np.arange(len(ids))  # (B,)
        labels = ids[row, masked]
        ids[row, masked] = mask_id
        given = torch.from_numpy(ids)
        yield Batch(
            Padded(given, torch.ones_like(given, dtype=torch.bool), torch.arange(given.numel())),
            None,
            torch.from_numpy(row * ids.shape[1] + masked),
            torch.from_numpy(labels),
        )
