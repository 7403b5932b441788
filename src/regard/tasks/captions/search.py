"""Pictures -> captions, by a search."""

from collections.abc import Callable

import numpy as np
import torch

from regard.batching.caption_batches import InputsOf, PictureInputs
from regard.decoding.batch_search import SearchResults, cap_max_length, search
from regard.decoding.settings import DecodingSettings
from regard.models.contracts import AnyCaptionModel
from regard.types import AttentionHook

PICTURES_PER_BATCH = {"cpu": 16, "cuda": 256}


@torch.inference_mode()
def caption_inputs(
    model: AnyCaptionModel,
    inputs: PictureInputs,
    settings: DecodingSettings,
    *,
    numbers: range | None = None,
    hook: AttentionHook | None = None,
) -> SearchResults:
    """The n best captions of each picture of `inputs` (B, ...), the best first.

    `numbers` identify the pictures for sampling.
    """
    device = next(model.parameters()).device
    settings = cap_max_length(settings, [model.max_length])
    memory = model.encode(inputs.to(device), hook=hook)
    pictures, regions = memory.states.shape[:2]
    lengths = torch.full((pictures,), regions, device=device)
    return search(model, model.start(memory), lengths, settings, numbers=numbers, hook=hook)


def caption_pictures(
    model: AnyCaptionModel,
    inputs_of: InputsOf,
    num_pictures: int,
    settings: DecodingSettings,
    progress: Callable[[int], None] = lambda done: None,
) -> SearchResults:
    """The n best captions of any number of pictures, a batch at a time."""
    device, found = next(model.parameters()).device, []
    size = PICTURES_PER_BATCH.get(device.type, PICTURES_PER_BATCH["cpu"])
    for first in range(0, num_pictures, size):
        rows = np.arange(first, min(first + size, num_pictures))
        numbers = range(first, first + len(rows))
        found += caption_inputs(model, inputs_of(rows), settings, numbers=numbers)
        progress(len(found))
    return found
