"""The door to this folder: a decoder and its state -> the n best hypotheses of each sentence."""

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.decoding.beam import Beam
from regard.decoding.loop import explore
from regard.decoding.moves import Plan
from regard.decoding.observe import Observe
from regard.decoding.penalties import Penalties
from regard.decoding.rules import FREE, Rules, Wording
from regard.decoding.sampling import Sampler
from regard.decoding.settings import BeamSettings, DecodingSettings
from regard.models.contracts import Decoder, StateT
from regard.nouns import Hypothesis
from regard.types import Watch

UNRANKED = BeamSettings(length_penalty=0.0)
"""Samples are ranked by their probability alone."""


def search(
    decoder: Decoder[StateT],
    state: StateT,
    lengths: Tensor,
    settings: DecodingSettings,
    *,
    wording: Wording = FREE,
    numbers: Sequence[int] | None = None,
    watch: Watch | None = None,
    observe: Observe | None = None,
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
        plan = make_plan(settings, lengths, wording, numbers)
        if observe is not None:
            observe.begun(numbers, lengths.tolist())
        return explore(decoder, state, plan, watch, observe, numbers)


def make_plan(
    settings: DecodingSettings, lengths: Tensor, wording: Wording, numbers: Sequence[int]
) -> Plan:
    """How sentences of so many `lengths` (B,) are searched for."""
    rules = Rules(settings.rules, lengths, *wording)
    beam, num = settings.beam, settings.n_best
    if settings.sampling is None:
        penalties = Penalties(beam, lengths, rules.limits)
        return Plan(Beam(beam.size), rules, penalties, num, beam.stop)
    sampler = Sampler(settings.sampling, num, numbers, max(rules.limits), lengths.device)
    return Plan(sampler, rules, Penalties(UNRANKED, lengths, rules.limits), num, "safe")
