"""The nouns that cross folders and hold tensors; `nouns.py` has the others.

Axis letters, the same in every file: B sentences of a batch, T target or query positions,
S source or key positions, H heads, D model width, K hypotheses of a sentence (in search) or head
width (in attention), V vocabulary, E experts of a layer. A mask is boolean and True means *may
look* or *is real*.
"""

from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, Protocol, Self

import torch
from torch import Tensor, device


class Padded(NamedTuple):
    """Sentences of unlike length in one rectangle."""

    ids: Tensor  # (B, S) token ids
    mask: Tensor  # (B, S) True where a token is real; each row is some True, then some False

    def to(self, where: device) -> "Padded":
        return Padded(*(_to_device(x, where) for x in self))


def _to_device(x: Tensor, where: device) -> Tensor:
    """`x` on a device.

    A GPU fetches it by itself from memory that is pinned; from any other the host would have to
    hand it over, when all work before it is done.
    """
    if where.type != "cuda" or x.is_cuda:
        return x.to(where)
    return x.pin_memory().to(where, non_blocking=True)


@dataclass(frozen=True)
class Batch:
    """Pairs to learn from, with their M real target positions told apart from the padding."""

    source: Padded  # (B, S) each row ends in EOS
    target: Padded  # (B, T) what the decoder is given: each row begins with BOS
    places: Tensor  # (M,) where the real positions lie in the flattened (B * T)
    labels: Tensor  # (M,) what the decoder should answer there; EOS at each row's last
    source_indices: Tensor  # (N,) where the real source tokens lie in the flattened (B * S)

    @property
    def num_tokens(self) -> int:
        """M, known without asking a device."""
        return self.labels.shape[0]

    def duplicated(self) -> Self:
        """Every pair a second time, behind the first ones."""
        positions, cells = self.target.ids.numel(), self.source.ids.numel()
        return type(self)(
            Padded(*(torch.cat([x, x]) for x in self.source)),
            Padded(*(torch.cat([x, x]) for x in self.target)),
            torch.cat([self.places, self.places + positions]),
            torch.cat([self.labels, self.labels]),
            torch.cat([self.source_indices, self.source_indices + cells]),
        )

    def to(self, where: device) -> Self:
        """The same on a device, which nobody waits for."""
        return type(self)(
            self.source.to(where),
            self.target.to(where),
            _to_device(self.places, where),
            _to_device(self.labels, where),
            _to_device(self.source_indices, where),
        )


@dataclass(frozen=True)
class Memory:
    """What an encoder made of the source: all that a decoder ever sees of it."""

    states: Tensor  # (B, S, D)
    mask: Tensor  # (B, S)
    extras: tuple[Tensor, ...] = ()
    """What else this family's decoder asks for, such as a last hidden state; each (B, ...)."""
    routings: "tuple[Routing, ...]" = ()
    """Of the encoder's layers of experts."""

    def rows(self, sentences: Tensor) -> "Memory":
        """That of some `sentences` (B',), each as often as it is named."""
        states, mask, *extras = (
            x.index_select(0, sentences) for x in (self.states, self.mask, *self.extras)
        )
        return replace(self, states=states, mask=mask, extras=tuple(extras))


class Site(NamedTuple):
    """The place in a model where an attention happens."""

    part: Literal["encoder", "decoder", "cross"]
    layer: int
    step: int | None = None
    """The target position being decoded; None when all positions are computed at once."""
    member: int = 0
    """Which model of an ensemble; they all have a first layer."""


class Routing(NamedTuple):
    """How a layer of experts shared out the tokens of a batch."""

    site: Site
    balance_loss: Tensor  # () what uneven use costs, in nats a token: it is added to the loss
    shares: Tensor  # (E,) of all choices, the share that fell on each expert


class DecoderOutput(NamedTuple):
    """What a decoder made of a given target."""

    features: Tensor  # (B, T, D), or (M, D) of the real positions alone: for the output layer
    routings: tuple[Routing, ...] = ()
    """Of the decoder's layers of experts."""


class AttentionHook(Protocol):
    """The recorder's hook: sees every attention of a forward pass, and may change it.

    `weights` is (B, H, T, S); in a step of a search T counts the hypotheses of each sentence.
    The answer, of the same shape, is what the values are mixed with. Giving a watch makes every
    attention take the plain formula; giving none costs nothing.
    """

    def __call__(self, site: Site, weights: Tensor, /) -> Tensor: ...
