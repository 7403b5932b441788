"""Types shared by several packages. Importing this module does not import torch.

Axis letters, the same in every file: B sentences of a batch, T target or query positions,
S source or key positions, H heads, D model width, K hypotheses of a sentence (in search) or head
width (in attention), V vocabulary, E experts of a layer or width of embeddings (in models), N
finished hypotheses of a sentence (in search) or flattened positions. Masks are boolean; True
means *may be attended to* or *is not padding*.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, Self

if TYPE_CHECKING:
    from torch import Tensor, device

Link = tuple[int, int]  # indices, from 0, of aligned source and target words (of `split_units`)


class GoldAlignment(NamedTuple):
    """The reference alignment of one sentence pair."""

    sure: frozenset[Link]
    possible: frozenset[Link]  # includes the sure ones


@dataclass(frozen=True)
class Hypothesis:
    """One result of a search."""

    tokens: tuple[int, ...]  # token ids without BOS and EOS
    score: float  # the value the search ranks by: the log-probability after the penalties
    log_probability: float  # of its tokens with EOS, in nats; see also `RuleSettings.excluded`
    finished: bool  # whether it ended in EOS, rather than at the length limit
    replacements: tuple[str, ...] = ()  # words for its unknown tokens; empty: they stay unknown


class Padded(NamedTuple):
    """A padded batch of sentences."""

    ids: Tensor  # (B, S) token ids
    mask: Tensor  # (B, S) True where a token is real; padding comes last in each row

    def to(self, device: device) -> Padded:
        return Padded(*(_to_device(x, device) for x in self))


def _to_device(x: Tensor, device: device) -> Tensor:
    """`x` on a device; the copy to a GPU is asynchronous, from pinned memory."""
    if device.type != "cuda" or x.is_cuda:
        return x.to(device)
    return x.pin_memory().to(device, non_blocking=True)


@dataclass(frozen=True)
class Batch:
    """Sentence pairs to train on, and the indices of their real tokens."""

    source: Padded  # (B, S) each row ends in EOS
    target: Padded  # (B, T) decoder input: each row begins with BOS
    target_indices: Tensor  # (M,) indices of the real target positions in the flattened (B * T)
    labels: Tensor  # (M,) the token to predict at each of them; EOS at each row's last
    source_indices: Tensor  # (N,) indices of the real source tokens in the flattened (B * S)

    @property
    def num_tokens(self) -> int:
        """M, known without synchronizing with the device."""
        return self.labels.shape[0]

    def duplicated(self) -> Self:
        """The batch repeated once: pairs 0 to B - 1, then the same again."""
        sides = (self.source, self.target)
        source, target = (Padded(*(x.repeat(2, 1) for x in side)) for side in sides)
        indices, labels = self.target_indices.repeat(2), self.labels.repeat(2)
        indices[self.num_tokens :] += self.target.ids.numel()
        source_indices = self.source_indices.repeat(2)
        source_indices[len(self.source_indices) :] += self.source.ids.numel()
        return type(self)(source, target, indices, labels, source_indices)

    def to(self, device: device) -> Self:
        """The same batch on a device; the copy is asynchronous."""
        tensors = self.target_indices, self.labels, self.source_indices
        sides = self.source.to(device), self.target.to(device)
        return type(self)(*sides, *(_to_device(x, device) for x in tensors))


@dataclass(frozen=True)
class Memory:
    """Encoder output: everything the decoder gets of the source."""

    states: Tensor  # (B, S, D)
    mask: Tensor  # (B, S)
    extras: tuple[Tensor, ...] = ()  # further tensors (B, ...) for this family's decoder
    routings: tuple[Routing, ...] = ()  # of the encoder's layers of experts

    def select_sentences(self, sentences: Tensor) -> Memory:
        """The memory of `sentences` (B',); indices may repeat."""
        tensors = (self.states, self.mask, *self.extras)
        states, mask, *extras = (x.index_select(0, sentences) for x in tensors)
        return replace(self, states=states, mask=mask, extras=tuple(extras))


class Site(NamedTuple):
    """Identifies one attention of a model."""

    part: Literal["encoder", "decoder", "cross"]
    layer: int
    step: int | None = None  # the target position being decoded; None: all at once
    member: int = 0  # index of the model in an ensemble
    normalized: bool = True  # whether a query's weights sum to 1; if not, some may be negative


class Routing(NamedTuple):
    """How a layer of experts distributed the tokens of a batch."""

    site: Site
    balance_loss: Tensor  # () penalty for uneven use, in nats a token: it is added to the loss
    shares: Tensor  # (E,) the fraction of all selections that each expert got


class DecoderOutput(NamedTuple):
    """Decoder output for a given target."""

    features: Tensor  # (B, T, D), or (M, D) of the real positions: input of the output layer
    routings: tuple[Routing, ...] = ()  # of the decoder's layers of experts


class AttentionHook(Protocol):
    """Called with the weights (B, H, T, S) of every attention in a forward pass; may replace them.

    In a decoding step T counts hypotheses. With a hook, the plain formula computes attention.
    """

    def __call__(self, site: Site, weights: Tensor, /) -> Tensor: ...
