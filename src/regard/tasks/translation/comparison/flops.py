"""Floating-point operations of training, counted by torch."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from regard.batching.collate import collate
from regard.decoding.batch_search import one_thread
from regard.models.contracts import AnyModel
from regard.tasks.translation.batches import build_loss
from regard.tasks.translation.task import new_model
from regard.tasks.translation.training_inputs import TrainingInputs
from regard.training.loss import LossFn
from regard.types import AnyBatch

NUM_BATCHES, BATCH_TOKENS = 4, 256  # batches that are counted, and positions of each


def flops_per_token(inputs: TrainingInputs) -> float:
    """Mean operations of training per target token, measured on small batches of all lengths."""
    settings = inputs.recipe.training
    batches = inputs.fitting.length_sorted(min(BATCH_TOKENS, settings.batch_tokens))
    chosen = {(2 * n + 1) * len(batches) // (2 * NUM_BATCHES) for n in range(NUM_BATCHES)}
    model, loss = new_model(inputs.recipe, inputs.tokenizers), build_loss(settings)
    num_flops = num_tokens = 0
    for number in sorted(chosen):
        batch = collate(*inputs.train.take(batches[number]))
        num_flops += count_flops(model, loss, batch)
        num_tokens += batch.num_labels
    return num_flops / num_tokens


def count_flops(model: AnyModel, loss: LossFn, batch: AnyBatch) -> int:
    """The operations of all matrix products and convolutions, forward and backward, on the CPU."""
    # torch cannot count inside fused attention and oneDNN's recurrent layers: both are off
    with (
        one_thread(),
        _without_onednn(),
        sdpa_kernel(SDPBackend.MATH),
        FlopCounterMode(display=False) as counter,
    ):
        loss(model.train(), batch).loss.backward()  # type: ignore[no-untyped-call]
    return int(counter.get_total_flops())


@contextmanager
def _without_onednn() -> Iterator[None]:
    """Like `torch.backends.mkldnn.flags`, which also sets flags that only some GPUs have, and
    warns.
    """
    before = torch.backends.mkldnn.enabled
    torch.backends.mkldnn.enabled = False  # type: ignore[assignment]
    try:
        yield
    finally:
        torch.backends.mkldnn.enabled = before
