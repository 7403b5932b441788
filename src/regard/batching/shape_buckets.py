"""Batches padded to few shapes, so that a CUDA graph of a shape serves all batches of its bucket.

A batch is padded with filler rows whose labels are ignored. The time of a model that packs its
sentences depends on the number of tokens: filler rows bring it to a round number, and lengths are
rounded coarsely. The time of other models depends on the padded rectangle: lengths are rounded
finely, each filler row has one token, and filler labels are at padding positions. Batches can
exceed their budget when segmentation is sampled after they are planned: these are rounded more
coarsely, both sides to the same length.
"""

from collections.abc import Hashable
from dataclasses import replace
from typing import Any, Generic, NamedTuple, Protocol

import torch
from torch import Tensor

from regard.kernels.cross_entropy import IGNORE_INDEX
from regard.text.special_tokens import EOS
from regard.types import Batch, InputsT, Padded

TOKEN_MULTIPLE = 8  # tokens are rounded to multiples of this
PACKED_TOKEN_STEPS, PADDED_TOKEN_STEPS = 32, 8
"""Token counts are rounded to multiples of the budget divided by this: for packed batches, and for
padded labels."""
LENGTHS_PER_OCTAVE, ROW_COUNTS_PER_OCTAVE = 8, 4
"""The number of rounded values between two powers of two, for lengths of padded batches and for row
counts beyond the budget."""
ROW_LENGTHS_PER_OCTAVE = 4  # lengths of batches of rows


class BatchShape(NamedTuple):
    """The sizes of a batch's tensors."""

    rows: int
    source: int  # S
    target: int  # T
    source_tokens: int
    target_tokens: int


class Buckets(Protocol[InputsT]):
    """Few shapes to which all batches can be padded."""

    def shape(self, batch: Batch[InputsT], /) -> Hashable:
        """The shape of the bucket of a batch."""
        ...

    def pad(self, batch: Batch[InputsT], shape: Any, /) -> Batch[InputsT]:
        """The batch in the shape of its bucket; filler labels are IGNORE_INDEX."""
        ...


class ExactShapes(Generic[InputsT]):
    """Each shape is its own bucket: for batches that have only a few shapes anyway."""

    def shape(self, batch: Batch[InputsT]) -> Hashable:
        return tuple(tensor.shape for tensor in batch.tensors())

    def pad(self, batch: Batch[InputsT], _: Hashable) -> Batch[InputsT]:
        return batch


class RowBuckets(NamedTuple):
    """For batches of equally many rows, each with one label or none, padded to few lengths."""

    limit: int | None = None  # the longest row that the model can take, if there is one

    def shape(self, batch: Batch[Padded]) -> Hashable:
        rows, length = batch.inputs.ids.shape
        rounded = round_up_to_bucket(length, ROW_LENGTHS_PER_OCTAVE)
        return rows, within_limit(length, rounded, self.limit)

    def pad(self, batch: Batch[Padded], shape: tuple[int, int]) -> Batch[Padded]:
        padding = shape[1] - batch.inputs.ids.shape[1]
        inputs = batch.inputs.map(lambda x: torch.nn.functional.pad(x, (0, padding)))
        return replace(batch, inputs=inputs)


class ShapeBuckets(NamedTuple):
    """Shapes for translation batches; few are needed for those within a `budget` of positions."""

    budget: int
    packed: bool = True  # whether the model packs its sentences
    limit: int | None = None  # the longest side that the model can take, if there is one

    def shape(self, batch: Batch[Padded]) -> BatchShape:
        """The shape of the bucket of a batch."""
        source, target = _sides(batch)
        lengths = [side.padded.ids.shape[1] for side in (source, target)]
        rows = len(source.padded.ids)
        per_octave, coarseness = 1 if self.packed else LENGTHS_PER_OCTAVE, 1
        rounded = [round_up_to_bucket(length, per_octave) for length in lengths]
        num_rows = self.budget // smallest_in_bucket(max(rounded), per_octave)
        if rows * max(lengths) > self.budget:
            rounded, coarseness = [max(rounded)] * 2, 2
            # Few batches have twice the rows for their length: most get the same number.
            num_rows = (
                round_up_to_bucket(max(rows, 2 * num_rows), 1)
                if self.packed
                else round_up_to_bucket(rows, ROW_COUNTS_PER_OCTAVE)
            )
        source_length, target_length = (
            within_limit(*both, self.limit) for both in zip(lengths, rounded, strict=True)
        )
        steps = PACKED_TOKEN_STEPS if self.packed else PADDED_TOKEN_STEPS
        multiple = coarseness * _round_to_multiple(-(-self.budget // steps), TOKEN_MULTIPLE)
        source_tokens, target_tokens = (
            _round_to_multiple(len(side.indices), multiple) for side in (source, target)
        )
        if self.packed:
            num_rows += -(-multiple // min(source_length, target_length))
            return BatchShape(num_rows, source_length, target_length, source_tokens, target_tokens)
        num_labels = min(target_tokens, num_rows * target_length)
        source_tokens = num_rows * source_length
        return BatchShape(num_rows, source_length, target_length, source_tokens, num_labels)

    def pad(self, batch: Batch[Padded], shape: BatchShape) -> Batch[Padded]:
        """The batch in a bucket's shape: its own rows come first, with positions unchanged."""
        rows, *lengths, source_tokens, target_tokens = shape
        add_filler = _add_filler_tokens if self.packed else _add_filler_rows
        source, target = (
            add_filler(_pad_length(side, length), rows, tokens)
            for side, length, tokens in zip(
                _sides(batch), lengths, (source_tokens, target_tokens), strict=True
            )
        )
        labels = batch.labels.new_full((target_tokens,), IGNORE_INDEX)
        labels[: batch.num_labels] = batch.labels
        inputs = Padded(source.padded.ids, source.padded.mask, source.indices)
        return Batch(inputs, target.padded, target.indices, labels)


def within_limit(length: int, rounded: int, limit: int | None) -> int:
    """The rounded length, at most the limit; a longer sentence is left to the model's error."""
    return rounded if limit is None else max(length, min(rounded, limit))


class _PaddedSide(NamedTuple):
    padded: Padded  # (B, S)
    indices: Tensor  # (N,) of the tokens in the flattened rectangle


def _sides(batch: Batch[Padded]) -> tuple[_PaddedSide, _PaddedSide]:
    """The source and the target of a translation batch."""
    source, target, positions = batch.inputs, batch.decoder_input, batch.positions
    if source.indices is None or positions is None:
        raise ValueError("a batch of sentence pairs has the indices of its real tokens")
    return _PaddedSide(source, source.indices), _PaddedSide(target, positions)


def _pad_length(side: _PaddedSide, length: int) -> _PaddedSide:
    """The same sentences in a rectangle (B, `length`)."""
    (padded, indices), width = side, side.padded.ids.shape[1]
    ids, mask = (torch.nn.functional.pad(x, (0, length - width)) for x in (padded.ids, padded.mask))
    return _PaddedSide(Padded(ids, mask), indices // width * length + indices % width)


def _add_filler_tokens(side: _PaddedSide, rows: int, tokens: int) -> _PaddedSide:
    """A side with `rows` rows; filler rows are filled one after another until there are `tokens`
    tokens.
    """
    (own_rows, length), num_filler = side.padded.ids.shape, tokens - len(side.indices)
    real = (torch.arange((rows - own_rows) * length) < num_filler).view(-1, length)
    filler = torch.arange(own_rows * length, own_rows * length + num_filler)
    return _PaddedSide(_append_rows(side.padded, real), torch.cat([side.indices, filler]))


def _add_filler_rows(side: _PaddedSide, rows: int, tokens: int) -> _PaddedSide:
    """A side with `rows` rows, filler rows with one token each; filler indices point to padding."""
    own_rows, length = side.padded.ids.shape
    real = (torch.arange(length) < 1).expand(rows - own_rows, length)
    is_padding = torch.ones(rows * length, dtype=torch.bool).index_fill_(0, side.indices, False)
    padding = is_padding.nonzero()[: tokens - len(side.indices), 0]  # distinct: gradients add up
    return _PaddedSide(_append_rows(side.padded, real), torch.cat([side.indices, padding]))


def _append_rows(padded: Padded, real: Tensor) -> Padded:
    """Filler rows after the others; their tokens are where `real` (F, S) is True."""
    ids = padded.ids.new_full(real.shape, EOS)
    return Padded(torch.cat([padded.ids, ids]), torch.cat([padded.mask, real]))


def _round_to_multiple(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple


def round_up_to_bucket(length: int, parts: int) -> int:
    """`length` rounded up to one of `parts` even steps from a power of two to the next."""
    return _round_to_multiple(length, _bucket_width(length, parts))


def smallest_in_bucket(rounded: int, parts: int) -> int:
    """The smallest length that is rounded up to `rounded`."""
    return rounded - _bucket_width(rounded, parts) + 1


def _bucket_width(length: int, parts: int) -> int:
    """The distance between two steps at `length`; at least 1."""
    below = 1 << max(0, (length - 1).bit_length() - 1)
    return max(1, below // parts)
