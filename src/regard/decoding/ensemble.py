"""An ensemble of decoders as one decoder."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor

from regard.errors import SearchError
from regard.models.contracts import Decoder, State
from regard.types import AttentionHook, Site


@dataclass(frozen=True)
class EnsembleState:
    """The states of all members, which may be of different families."""

    members: tuple[State, ...]

    def select_sentences(self, sentences: Tensor) -> Self:
        return type(self)(tuple(member.select_sentences(sentences) for member in self.members))

    def reorder(self, parents: Tensor) -> Self:
        return type(self)(tuple(member.reorder(parents) for member in self.members))


def hook_for_member(hook: AttentionHook | None, number: int) -> AttentionHook | None:
    """`hook` for member `number` of an ensemble: `Site.member` tells the members apart."""
    if hook is None:
        return None

    def hooked(site: Site, weights: Tensor, /) -> Tensor:
        return hook(site._replace(member=number), weights)

    return hooked


class Ensemble:
    """A decoder whose probabilities are the mean of its members'.

    Members may be of different families, but share one target vocabulary; a hook gets the attention
    of all members.
    """

    def __init__(self, decoders: Sequence[Decoder[Any]]) -> None:
        self._decoders = tuple(decoders)
        self._log_weight = math.log(1 / len(decoders))

    def step(
        self, tokens: Tensor, state: EnsembleState, *, hook: AttentionHook | None = None
    ) -> tuple[Tensor, EnsembleState]:
        """Logarithms (B, K, V) of the mean probabilities, and the states of all members."""
        pairs = zip(self._decoders, state.members, strict=True)
        steps = [
            decoder.step(tokens, member, hook=hook_for_member(hook, number))
            for number, (decoder, member) in enumerate(pairs)
        ]
        sizes = [logits.shape[-1] for logits, _ in steps]
        if len(set(sizes)) > 1:
            raise SearchError(
                f"the models of an ensemble must share one target vocabulary; theirs hold {sizes} "
                "ids: choose models that were trained with the same tokenizer"
            )
        parts = [
            logits.log_softmax(-1, dtype=torch.promote_types(logits.dtype, torch.float32))
            + self._log_weight
            for logits, _ in steps
        ]
        mean = torch.stack(parts).logsumexp(0)  # (B, K, V)
        return mean, EnsembleState(tuple(member for _, member in steps))

    def to_static(
        self, state: EnsembleState, steps: int, step_counter: Tensor
    ) -> EnsembleState | None:
        """The static states of all members; None if one of them has none."""
        pairs = zip(self._decoders, state.members, strict=True)
        states = [decoder.to_static(member, steps, step_counter) for decoder, member in pairs]
        members = tuple(state for state in states if state is not None)
        return EnsembleState(members) if len(members) == len(states) else None
