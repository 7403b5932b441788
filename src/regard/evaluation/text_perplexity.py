"""Losses on a running text of a language model that carries its memory between windows."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from regard.batching.text_windows import whole_text_windows
from regard.evaluation.perplexity import CHUNK_ROWS
from regard.kernels.cross_entropy import IGNORE_INDEX
from regard.models.contracts import AnyStatefulGenerator

CARRIED_ROWS, CARRIED_OVERLAP = 32, 256
"""The number of rows that a text is split into, and preceding tokens that each reads first."""
CARRIED_LENGTH = 512  # tokens of a window


def carried_nats(model: AnyStatefulGenerator, ids: NDArray[np.integer[Any]]) -> float:
    """The negative log-likelihood, in nats, of all tokens of a text, for a model that carries its
    memory from window to window.

    Each token is predicted from all tokens before it in its row: at least `CARRIED_OVERLAP`,
    except at the beginning of the text.
    """
    return sum(float(losses.sum()) for losses, _ in _window_losses(model, ids))


def carried_losses(
    model: AnyStatefulGenerator, ids: NDArray[np.integer[Any]]
) -> NDArray[np.float64]:
    """The negative log-likelihood, in nats, of each token, in the order of the text: (N,)."""
    windows = list(_window_losses(model, ids))
    losses, counted = (torch.cat(parts, 1) for parts in zip(*windows, strict=True))  # (B, S)
    return losses[counted].numpy()


@torch.inference_mode()
def _window_losses(
    model: AnyStatefulGenerator, ids: NDArray[np.integer[Any]]
) -> Iterator[tuple[Tensor, Tensor]]:
    """The losses of the tokens of each window, 0 for those that are not counted, and a mask of
    those that are: (B, T) each, on the CPU.
    """
    device = next(model.parameters()).device
    was_training, memory = model.training, None
    model.eval()
    windows = whole_text_windows(
        ids, rows=CARRIED_ROWS, length=CARRIED_LENGTH, overlap=CARRIED_OVERLAP
    )
    for batch in windows:
        moved = batch.to(device)
        shape = moved.decoder_input.ids.shape
        memory = model.blank_memory(shape[0]) if memory is None else memory
        decoded, memory = model.read_on(moved.decoder_input, memory)
        features = decoded.features.flatten(0, 1)  # (M, D)
        chunks = zip(*(torch.split(x, CHUNK_ROWS) for x in (features, moved.labels)), strict=True)
        losses = [
            F.cross_entropy(
                model.logits(rows).float(), labels, reduction="none", ignore_index=IGNORE_INDEX
            )  # (R,)
            for rows, labels in chunks
        ]
        counted = batch.labels.view(shape) != IGNORE_INDEX
        yield torch.cat(losses).cpu().double().view(shape), counted  # not all devices have float64
    model.train(was_training)
