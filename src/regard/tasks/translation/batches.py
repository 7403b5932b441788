"""Training batches of a translator, its loss, and the shapes that they are padded to on a GPU."""

from collections.abc import Callable, Iterator
from functools import partial
from operator import attrgetter

import torch

from regard.batching.collate import PositionedBatch, collate_stream
from regard.batching.prefetch import start_then_hand_over
from regard.batching.sampler import (
    WHOLE_STREAM,
    SampledPairs,
    Shard,
    StreamPosition,
    sample_batches,
    sample_segmentations,
)
from regard.batching.shape_buckets import ShapeBuckets
from regard.errors import TrainingError
from regard.models.contracts import AnyModel
from regard.tasks.translation.recipe import TranslationRecipe
from regard.tasks.translation.settings import TranslationTrainingSettings
from regard.tasks.translation.training_inputs import TrainingInputs
from regard.text.settings import TextSettings
from regard.training.loop import BatchesFrom
from regard.training.loss import LossFn, batch_loss

MAX_BATCH_WORKERS = {"bpe": 4, "unigram": 8}
"""Processes that sample segmentations for a GPU: 4,096 positions take 5 ms by BPE and 53 ms by the
unigram model, a small training step 3 ms.
"""


def build_batches(
    recipe: TranslationRecipe, inputs: TrainingInputs, device: torch.device
) -> BatchesFrom:
    """A function that streams training batches for a model on `device`, starting at any
    position.
    """
    settings, sampled = recipe.training, recipe.text.sampling
    sample = partial(
        sample_batches,
        inputs.train,
        budget=settings.batch_tokens,
        seed=settings.seed,
        max_tokens=settings.max_tokens,
        sample_segmentation=partial(sample_segmentations, inputs.tokenizers) if sampled else None,
    )
    return partial(stream_batches, sample, _num_batch_workers(device, recipe.text))


def stream_batches(
    sample: Callable[..., Iterator[SampledPairs]],
    num_workers: int,
    start: StreamPosition,
    shard: Shard = WHOLE_STREAM,
) -> Iterator[PositionedBatch]:
    """Batches of a shard from `start` on; their pairs are sampled by `num_workers` processes, or by
    this one if it is 0.
    """
    if not num_workers:
        return collate_stream(sample(start, shard=shard))
    # Workers begin right after a batch of this shard: from there, its next is the last of `of`.
    from_there = Shard(shard.of - 1, shard.of)
    in_workers = [partial(sample, shard=one) for one in from_there.split(num_workers)]
    next_position = attrgetter("next_position")
    here = partial(sample, shard=shard)
    pairs = start_then_hand_over(here, in_workers, start, next_position, _worker_died)
    return collate_stream(pairs)


def _num_batch_workers(device: torch.device, text: TextSettings) -> int:
    """The number of processes that sample segmentations for a model on `device`; 0 without
    sampling.

    On a CPU one suffices: a training step takes far longer, and needs the cores.
    """
    sampled = [side.kind for side in (text.source, text.target) if side and side.sampling]
    if not sampled:
        return 0
    if device.type == "cpu":
        return 1
    limit = max(MAX_BATCH_WORKERS[kind] for kind in sampled)
    return min(limit, max(1, torch.get_num_threads() // 2))


def _worker_died(status: int) -> TrainingError:
    return TrainingError(
        f"the process that prepares batches ended with status {status}; was it killed, or the "
        "memory exhausted? Continue with --resume"
    )


def build_buckets(settings: TranslationTrainingSettings, model: AnyModel) -> ShapeBuckets:
    """The shapes to which the batches of a model are padded for CUDA graphs."""
    return ShapeBuckets(settings.batch_tokens, model.supports_packing, model.max_length)


def build_loss(settings: TranslationTrainingSettings) -> LossFn:
    """The loss with the label smoothing and consistency of the settings."""
    return partial(batch_loss, smoothing=settings.label_smoothing, consistency=settings.consistency)
