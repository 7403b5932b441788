"""The door to this folder: a decoder and its state -> the n best hypotheses of each sentence."""

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.decoding.constraints.rules import NO_CONSTRAINTS, Constraints, Rules
from regard.decoding.search.beam import BeamSelector
from regard.decoding.search.loop import run_search
from regard.decoding.search.penalties import Penalties
from regard.decoding.search.sampling import SamplingSelector
from regard.decoding.search.step import SearchConfig
from regard.decoding.settings import BeamSettings, DecodingSettings
from regard.decoding.tracing.observer import SearchObserver
from regard.models.contracts import Decoder, StateT
from regard.types import AttentionHook, Hypothesis

SAMPLING_PENALTIES = BeamSettings(length_penalty=0.0)
"""Samples are ranked by their probability alone."""


def search(
    decoder: Decoder[StateT],
    state: StateT,
    lengths: Tensor,
    settings: DecodingSettings,
    *,
    constraints: Constraints = NO_CONSTRAINTS,
    numbers: Sequence[int] | None = None,
    hook: AttentionHook | None = None,
    observe: SearchObserver | None = None,
) -> list[list[Hypothesis]]:
    """The 1 to n_best answers to each sentence, the best first; the sentences in their order.

    `state` is a grid (B, 1) before its first token. `lengths` (B,) counts the real positions of
    each source; the search runs on its device. `numbers`, by default 0, 1, ..., tell the sentences
    apart for sampling, so that no answer depends on how they are batched, and for `observe`, who is
    told of each step.

    There are fewer than n_best answers only where no more exist. The decoder is given at most
    `max_length` tokens, BOS among them.
    """
    if not len(lengths):
        return []
    numbers = range(len(lengths)) if numbers is None else numbers
    if len(numbers) != len(lengths):
        raise ValueError(f"expected a number for each of {len(lengths)} sentences, got {numbers}")
    with torch.inference_mode():
        config = make_config(settings, lengths, constraints, numbers)
        if observe is not None:
            observe.on_start(numbers, lengths.tolist())
        return run_search(decoder, state, config, hook, observe, numbers)


def make_config(
    settings: DecodingSettings, lengths: Tensor, constraints: Constraints, numbers: Sequence[int]
) -> SearchConfig:
    """How sentences of so many `lengths` (B,) are searched for."""
    rules = Rules(settings.rules, lengths, *constraints)
    beam, num = settings.beam, settings.n_best
    if settings.sampling is None:
        penalties = Penalties(beam, lengths, rules.limits)
        return SearchConfig(BeamSelector(beam.size), rules, penalties, num, beam.stop)
    sampler = SamplingSelector(settings.sampling, num, numbers, max(rules.limits), lengths.device)
    return SearchConfig(
        sampler, rules, Penalties(SAMPLING_PENALTIES, lengths, rules.limits), num, "safe"
    )
