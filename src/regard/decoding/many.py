"""Any number of sentences -> hypotheses: batched by length, answered in order."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from regard.batching.collate import pad_source
from regard.decoding.batches import plan_batches
from regard.decoding.ensemble import Ensemble, EnsembleState, watch_member
from regard.decoding.observe import Observe
from regard.decoding.rules import Wording
from regard.decoding.search import search
from regard.decoding.settings import DecodingSettings
from regard.errors import SearchError
from regard.models.contracts import AnyModel, Decoder, State
from regard.nouns import Hypothesis
from regard.types import Watch


class Member(NamedTuple):
    """A model, and the sentences to translate in its own tokens."""

    model: AnyModel
    sources: Sequence[Sequence[int]]


def search_many(
    members: Sequence[Member],
    settings: DecodingSettings,
    *,
    budget: int,
    prefixes: Sequence[Sequence[int]] | None = None,
    forbidden: Sequence[Sequence[int]] = (),
    numbers: Sequence[int] | None = None,
    watch: Watch | None = None,
    observe: Observe | None = None,
) -> list[list[Hypothesis]]:
    """The n best answers to each sentence, in the order given, by one model or several together.

    At most `budget` positions, counted once for each hypothesis, are searched at a time, and no
    answer is longer than the models can write. Each sentence's answers begin with its prefix, and
    none holds a phrase that is `forbidden`. `numbers`, by default the sentences' places, tell them
    apart for sampling and for `observe`.
    """
    settings = _within_limits(settings, members)
    _check_coverage(settings, members)
    first = members[0]
    lengths = [len(ids) + 1 for ids in first.sources]  # with EOS
    width = settings.n_best if settings.sampling else settings.beam.size
    where = next(first.model.parameters()).device
    answers: dict[int, list[Hypothesis]] = {}
    for places in plan_batches(lengths, budget, width):
        decoder, state = _begin(members, places, watch)
        found = search(
            decoder,
            state,
            torch.tensor([lengths[place] for place in places], device=where),
            settings,
            wording=Wording(
                None if prefixes is None else [prefixes[place] for place in places], forbidden
            ),
            numbers=places if numbers is None else [numbers[place] for place in places],
            watch=watch,
            observe=observe,
        )
        answers.update(zip(places, found, strict=True))
    return [answers[place] for place in range(len(lengths))]


def _within_limits(settings: DecodingSettings, members: Sequence[Member]) -> DecodingSettings:
    limits = [model.limit for model, _ in members if model.limit is not None]
    longest = min([settings.rules.max_length, *limits])
    rules = settings.rules.model_copy(update={"max_length": longest})
    return settings.model_copy(update={"rules": rules})


def _check_coverage(settings: DecodingSettings, members: Sequence[Member]) -> None:
    """An error if looks at the source are to be counted and the models read unlike tokens."""
    if not settings.beam.coverage_penalty:
        return
    readings = [[tuple(ids) for ids in sources] for _, sources in members]
    if any(reading != readings[0] for reading in readings):
        raise SearchError(
            "a coverage penalty counts how often each token of the source was looked at, and these "
            "models read it in unlike tokens: set coverage_penalty to 0, or choose models that "
            "share a source vocabulary"
        )


@torch.inference_mode()
def _begin(
    members: Sequence[Member], places: Sequence[int], watch: Watch | None
) -> tuple[Decoder[Any], State]:
    """A decoder and its state before the first token, for the sentences at `places`."""
    states = []
    for number, (model, sources) in enumerate(members):
        where = next(model.parameters()).device
        source = pad_source([sources[place] for place in places]).to(where)
        memory = model.encode(source, watch=watch_member(watch, number))
        states.append(model.start(memory))
    if len(members) == 1:
        return members[0].model, states[0]
    return Ensemble([model for model, _ in members]), EnsembleState(tuple(states))
