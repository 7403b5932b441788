"""How much computing a step of training is, by counting the products of matrices."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from regard.batching.batch_sampler import length_sorted_batches
from regard.batching.collate import collate
from regard.batching.sampler import within_max_tokens
from regard.decoding.batch_search import one_thread
from regard.models.contracts import AnyModel
from regard.recipes.prepared_data import TrainingInputs
from regard.recipes.recipe import Recipe
from regard.recipes.run_folder import new_model
from regard.recipes.train_run import build_loss
from regard.training.step import LossFn
from regard.types import Batch

NUM_BATCHES, BATCH_TOKENS = 4, 256
"""So many batches of so many positions are enough to count, and small enough for a CPU."""


def flops_per_token(recipe: Recipe, prepared: TrainingInputs) -> float:
    """Floating-point operations for each target token that is learned from, on average.

    Those of some small batches (`count_flops`), of evenly spread lengths, which hold next to no
    padding. Of a mixture of experts what runs is counted: the experts that were chosen.
    """
    lengths = prepared.train.lengths()
    fitting = np.flatnonzero(within_max_tokens(lengths, recipe.training.max_tokens))
    source, target = lengths.source[fitting] + 1, lengths.target[fitting] + 1  # with EOS or BOS
    plan = length_sorted_batches(
        source, target, budget=min(BATCH_TOKENS, recipe.training.batch_tokens)
    )
    places = sorted(
        {(2 * number + 1) * len(plan) // (2 * NUM_BATCHES) for number in range(NUM_BATCHES)}
    )
    model, loss = new_model(recipe, prepared.tokenizers), build_loss(recipe.training)
    num_flops = num_tokens = 0
    for place in places:
        batch = collate(*prepared.train.take(fitting[plan[place]]))
        num_flops += count_flops(model, loss, batch)
        num_tokens += batch.num_tokens
    return num_flops / num_tokens


def count_flops(model: AnyModel, loss: LossFn, batch: Batch) -> int:
    """Operations of all products of matrices and convolutions, forward and backward, on the CPU.

    A multiplication and an addition are two; what is done element by element, and the optimizer,
    are left out. torch does not see into fused kernels of attention, nor into oneDNN's of recurrent
    layers, which not every processor has: without them every machine counts the same. In float64,
    where it has neither, attention to what is near would take all of the square.
    """
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
    """torch's own `flags` also sets what only some GPUs know, and warns of it."""
    before = torch.backends.mkldnn.enabled
    torch.backends.mkldnn.enabled = False  # type: ignore[assignment]
    try:
        yield
    finally:
        torch.backends.mkldnn.enabled = before
