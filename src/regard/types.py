"""Types shared by several packages. Importing this module does not import torch.

Axis letters, the same in every file: B sentences of a batch, T target or query positions,
S source or key positions, H heads, D model width, K hypotheses of a sentence (in search) or head
width (in attention), V vocabulary, E experts of a layer or width of embeddings (in models), N
finished hypotheses of a sentence (in search) or flattened positions. Masks are boolean; True
means *may be attended to* or *is not padding*.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, Protocol, Self, TypeVar

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
    score: float  # the value that the search ranks by: the log-probability after penalties
    log_probability: float  # of its tokens with EOS, in nats; see also `RuleSettings.excluded`
    finished: bool  # whether it ended in EOS, rather than at the length limit
    replacements: tuple[str, ...] = ()  # words for its unknown tokens; empty: they stay unknown


class Inputs(Protocol):
    """A model's input: tensors with one row for each example of a batch."""

    def to(self, device: device) -> Self: ...

    def duplicated(self) -> Self:
        """The rows 0 to B - 1, then the same rows again."""
        ...

    def tensors(self) -> tuple[Tensor, ...]:
        """All tensors in a fixed order: a CUDA graph keeps a static copy of each."""
        ...


InputsT = TypeVar("InputsT", bound=Inputs)


@dataclass(frozen=True)
class TensorFields:
    """`Inputs` whose tensors (B, ...) are the fields of a dataclass; some of them may be None."""

    def to(self, device: device) -> Self:
        """The same on a device; the copy to a GPU is asynchronous."""
        return self.map(lambda x: _to_device(x, device))

    def duplicated(self) -> Self:
        return self.map(lambda x: x.repeat(2, *[1] * (x.ndim - 1)))

    def tensors(self) -> tuple[Tensor, ...]:
        values = (getattr(self, field.name) for field in fields(self))
        return tuple(value for value in values if value is not None)

    def map(self, change: Callable[[Tensor], Tensor]) -> Self:
        """The same with each of its tensors changed."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return replace(
            self, **{name: change(value) for name, value in values.items() if value is not None}
        )


@dataclass(frozen=True)
class Padded(TensorFields):
    """Rows of token ids of different lengths, padded on the right. An empty prompt has no columns:
    S = 0.
    """

    ids: Tensor  # (B, S) token ids
    mask: Tensor  # (B, S) True where a token is real
    indices: Tensor | None = None  # (N,) of the real tokens in the flattened (B * S), for training
    segments: Tensor | None = None  # (B, S) 0 in the first text of a pair, 1 in the second

    def duplicated(self) -> Padded:
        twice = super().duplicated()
        if self.indices is None or twice.indices is None:
            return twice
        twice.indices[len(self.indices) :] += self.ids.numel()
        return twice


@dataclass(frozen=True)
class Pixels(TensorFields):
    """Pictures of one size."""

    values: Tensor  # (B, C, height, width)


@dataclass(frozen=True)
class Regions(TensorFields):
    """Features of the regions of pictures, computed once by a frozen network."""

    values: Tensor  # (B, S, D)


@dataclass(frozen=True)
class Series(TensorFields):
    """Numbers measured at time steps, padded on the left: the newest are in the last column."""

    values: Tensor  # (B, S, F) F numbers at each step
    mask: Tensor  # (B, S) True where a time step is real


def _to_device(x: Tensor, device: device) -> Tensor:
    """`x` on a device; the copy to a GPU is asynchronous, from pinned memory."""
    if device.type != "cuda" or x.is_cuda:
        return x.to(device)
    return x.pin_memory().to(device, non_blocking=True)


@dataclass(frozen=True)
class Batch(Generic[InputsT]):
    """The input of a training step, for every task.

    | what is learned                         | given  | positions   | labels    |
    |-----------------------------------------|--------|-------------|-----------|
    | translation, captions, chat, language   | tokens | of `given`  | token ids |
    | masked tokens                           | None   | of `inputs` | token ids |
    | numbers that follow a series            | None   | None        | numbers   |
    | the class of a text or a picture        | None   | None        | class ids |

    Class ids (M,) may become probabilities (M, V) where a loss mixes examples on the device.
    """

    inputs: InputsT  # B rows; each source sentence ends in EOS
    given: Padded | None  # (B, T) the decoder's input tokens; None: nothing is generated
    positions: Tensor | None  # (M,) indices of the labels in the flattened (B * T); None: M = B
    labels: Tensor  # (M,) ids of tokens or classes, or (M, F) numbers: the targets
    row_labels: Tensor | None = None  # (B,) a class id for each row, in addition to `labels`

    @property
    def num_labels(self) -> int:
        """M, known without synchronizing with the device."""
        return self.labels.shape[0]

    @property
    def decoder_input(self) -> Padded:
        """`given`, which a batch for a generating model must have."""
        if self.given is None:
            raise ValueError("a generating model learns from given tokens; the batch has none")
        return self.given

    def duplicated(self) -> Self:
        """The batch repeated once: rows 0 to B - 1, then the same again."""
        positions, given, row_labels = self.positions, self.given, self.row_labels
        if positions is not None and given is None:
            raise ValueError("positions of inputs are not repeated: only those of given tokens are")
        if positions is not None and given is not None:
            positions = positions.repeat(2)
            positions[self.num_labels :] += given.ids.numel()
        return type(self)(
            self.inputs.duplicated(),
            None if given is None else given.duplicated(),
            positions,
            self.labels.repeat(2, *[1] * (self.labels.ndim - 1)),
            None if row_labels is None else row_labels.repeat(2),
        )

    def to(self, device: device) -> Self:
        """The same batch on a device; the copy is asynchronous."""
        return type(self)(
            self.inputs.to(device),
            None if self.given is None else self.given.to(device),
            None if self.positions is None else _to_device(self.positions, device),
            _to_device(self.labels, device),
            None if self.row_labels is None else _to_device(self.row_labels, device),
        )

    def tensors(self) -> tuple[Tensor, ...]:
        """All tensors in a fixed order."""
        given = () if self.given is None else self.given.tensors()
        positions = () if self.positions is None else (self.positions,)
        rows = () if self.row_labels is None else (self.row_labels,)
        return *self.inputs.tensors(), *given, *positions, self.labels, *rows


AnyBatch = Batch[Any]
"""A batch with inputs of any type."""


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


class PictureWindows(NamedTuple):
    """How the patches of a picture are divided into square windows, each attending to itself.

    The picture is first shifted cyclically, up and left, by `shift` patches, and then cut from the
    top left into W windows, row by row.
    """

    rows: int  # of patches
    columns: int
    size: int  # patches along the side of a window
    shift: int = 0


class Site(NamedTuple):
    """Identifies one attention of a model."""

    part: Literal["encoder", "decoder", "cross"]
    layer: int
    step: int | None = None  # the target position being decoded; None: all at once
    member: int = 0  # index of the model in an ensemble
    normalized: bool = True  # whether a query's weights sum to 1; if not, some may be negative
    windows: PictureWindows | None = None  # the rows are then the B W windows of B pictures


class Routing(NamedTuple):
    """How a layer of experts distributed the tokens of a batch."""

    site: Site
    balance_loss: Tensor  # () penalty for uneven use, in nats per token, added to the loss
    shares: Tensor  # (E,) the fraction of all selections that each expert got


class Features(NamedTuple):
    """The input of a model's output layer, and terms that are added to its training loss."""

    features: Tensor  # (B, T, D), or (M, D) at the positions that a batch has labels for
    routings: tuple[Routing, ...] = ()  # of the layers of experts
    penalty: Tensor | None = None  # () nats per label, added to the loss


class AttentionHook(Protocol):
    """Called with the weights (B, H, T, S) of every attention in a forward pass; may replace them.

    In a decoding step T counts hypotheses. With a hook, the plain formula computes attention.
    """

    def __call__(self, site: Site, weights: Tensor, /) -> Tensor: ...


class ScoreInputs(NamedTuple):
    """The inputs of dot-product attention scores: q · k * scale + bias."""

    queries: Tensor  # (B, H, T, K)
    keys: Tensor  # (B, H, S, K)
    mask: Tensor | None  # broadcasts to (B, H, T, S); True where a query may attend; None: to all
    bias: Tensor | None  # broadcasts to (B, H, T, S)
    scale: float


class ScoreHook(AttentionHook, Protocol):
    """An attention hook that is also called with the queries and keys, before its weights.

    Hooks without `observe_scores` get only the weights. It is only called for dot-product scores.
    """

    def observe_scores(self, site: Site, inputs: ScoreInputs, /) -> None: ...
