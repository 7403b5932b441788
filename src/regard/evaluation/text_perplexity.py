"""How well a language model that carries its memory predicts a running text."""

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from regard.batching.text_windows import whole_text_windows
from regard.evaluation.perplexity import CHUNK_ROWS
from regard.kernels.cross_entropy import IGNORE_INDEX
from regard.models.contracts import AnyStatefulGenerator

CARRIED_ROWS, CARRIED_OVERLAP = 32, 256
"""Rows that a text is read in, and tokens before its own that each reads first."""
CARRIED_LENGTH = 512  # tokens of a window


@torch.inference_mode()
def carried_nats(model: AnyStatefulGenerator, ids: NDArray[np.integer[Any]]) -> float:
    """The negative log-likelihood of all tokens of a text, for a model that carries its memory.

    Each token is predicted from all tokens before it in its row and at least `CARRIED_OVERLAP`.
    """
    device = next(model.parameters()).device
    was_training = model.training
    model.eval()
    total, memory = 0.0, None
    windows = whole_text_windows(
        ids, rows=CARRIED_ROWS, length=CARRIED_LENGTH, overlap=CARRIED_OVERLAP
    )
    for batch in windows:
        moved = batch.to(device)
        memory = model.blank_memory(len(moved.decoder_input.ids)) if memory is None else memory
        decoded, memory = model.read_on(moved.decoder_input, memory)
        features = decoded.features.flatten(0, 1)  # (M, D)
        chunks = zip(*(torch.split(x, CHUNK_ROWS) for x in (features, moved.labels)), strict=True)
        losses = [
            F.cross_entropy(
                model.logits(rows).float(), labels, reduction="none", ignore_index=IGNORE_INDEX
            )  # (R,)
            for rows, labels in chunks
        ]
        total += float(torch.cat(losses).cpu().double().sum())  # float64 is not everywhere
    model.train(was_training)
    return total
