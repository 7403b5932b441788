"""Names and shapes of tensors, ours and another toolkit's: one table, read in both directions."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, Self

import torch
from torch import Tensor

from regard.errors import RunError
from regard.settings import abbreviate
from regard.text.vocabulary_map import VocabularyMap

MAX_NAMED = 4  # tensors that a message names at most
FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)


class TensorChange(NamedTuple):
    """Conversions of a tensor between their layout and ours."""

    to_ours: Callable[[Tensor], Tensor]
    to_theirs: Callable[[Tensor], Tensor]


def _same(tensor: Tensor) -> Tensor:
    return tensor


SAME = TensorChange(_same, _same)
TRANSPOSED = TensorChange(Tensor.t, Tensor.t)
"""Theirs is (in, out), ours (out, in)."""


def vocabulary_rows(vocabulary: VocabularyMap) -> TensorChange:
    """Rows of tokens in the order of our ids; those of absent tokens are zeros."""
    present = [i for i, there in enumerate(vocabulary.theirs) if there is not None]
    theirs = torch.tensor(vocabulary.to_theirs(present))

    def to_ours(tensor: Tensor) -> Tensor:
        _require_rows(tensor, vocabulary.rows)
        rows = tensor.new_zeros(vocabulary.size, *tensor.shape[1:])
        return rows.index_copy_(0, torch.tensor(present), tensor[theirs])

    def to_theirs(tensor: Tensor) -> Tensor:
        _require_rows(tensor, vocabulary.size)
        rows = tensor.new_empty(vocabulary.rows, *tensor.shape[1:])
        return rows.index_copy_(0, theirs, tensor[torch.tensor(present)])

    return TensorChange(to_ours, to_theirs)


def rotary_rows(heads: int) -> TensorChange:
    """Rows of a projection (H K, ...) whose heads get rotary positions.

    Theirs rotate the pairs (i, i + K / 2) of a head, ours (2i, 2i + 1).
    """

    def to_ours(tensor: Tensor) -> Tensor:
        halves = torch.unflatten(tensor, 0, (heads, 2, -1))  # (H, 2, K / 2, ...)
        return halves.transpose(1, 2).flatten(0, 2)

    def to_theirs(tensor: Tensor) -> Tensor:
        pairs = torch.unflatten(tensor, 0, (heads, -1, 2))  # (H, K / 2, 2, ...)
        return pairs.transpose(1, 2).flatten(0, 2)

    return TensorChange(to_ours, to_theirs)


class StackedPart(NamedTuple):
    """One of their tensors that is some rows of one of ours."""

    name: str
    rows: int  # not checked where it is the only part
    change: TensorChange = SAME


class TensorEntry(NamedTuple):
    """One of our tensors, and their tensors that it stacks, in this order."""

    ours: str
    parts: tuple[StackedPart, ...]

    @classmethod
    def single(cls, ours: str, theirs: str, change: TensorChange = SAME) -> Self:
        """One of our tensors that equals one of theirs."""
        return cls(ours, (StackedPart(theirs, 0, change),))

    def to_ours(self, theirs: Mapping[str, Tensor]) -> Tensor:
        found = [part.change.to_ours(theirs[part.name]) for part in self.parts]
        for part, tensor in zip(self.parts, found, strict=True):
            if len(self.parts) > 1 and tensor.shape[0] != part.rows:
                raise RunError(
                    f"its tensor {part.name} has {tensor.shape[0]:,} rows, but {part.rows:,} "
                    "according to its config.json"
                )
        return found[0] if len(found) == 1 else torch.cat(found)

    def to_theirs(self, ours: Tensor) -> dict[str, Tensor]:
        stacked = len(self.parts) > 1
        split = torch.split(ours, [part.rows for part in self.parts]) if stacked else [ours]
        pairs = zip(self.parts, split, strict=True)
        return {part.name: part.change.to_theirs(rows).contiguous() for part, rows in pairs}


def linear_entries(ours: str, theirs: str, *, bias: bool = True) -> Iterator[TensorEntry]:
    """Weight and bias of a linear layer or a norm."""
    return stacked_entries(ours, (theirs,), 0, bias=bias)


def stacked_entries(
    ours: str, theirs: Sequence[str], rows: int, *, bias: bool = True
) -> Iterator[TensorEntry]:
    """Weight and bias of our linear layer that stacks several of theirs, of `rows` each."""
    for kind in ("weight", "bias") if bias else ("weight",):
        parts = tuple(StackedPart(f"{name}.{kind}", rows) for name in theirs)
        yield TensorEntry(f"{ours}.{kind}", parts)


class TensorTable(NamedTuple):
    """All tensors of a model: none may be missing or left over."""

    entries: Sequence[TensorEntry]
    copies: Mapping[str, str] = MappingProxyType({})
    """Their names that a file may have -> the tensor that each is a copy of."""
    unused: Sequence[str] = ()
    """Patterns of names in files that are ignored: masks and other constants."""
    left_out: Sequence[str] = ()
    """Patterns of our names that are not exported: parts that this model does not use."""

    def to_ours(self, theirs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Our tensors, in float32; a `RunError` names missing and unknown ones."""
        wanted = {part.name for entry in self.entries for part in entry.parts}
        extra = [name for name in theirs if name not in wanted and not self._is_unused(name)]
        left = [name for name in extra if name not in self.copies]
        if missing := wanted - theirs.keys():
            raise RunError(f"its file of weights lacks {_names(missing)}")
        if left:
            raise RunError(f"its file of weights has {_names(left)}, which are not supported here")
        for name in extra:
            if not torch.equal(theirs[name], theirs[self.copies[name]]):
                raise RunError(
                    f"its config.json says that {name} is {self.copies[name]}, but they "
                    "differ in its file"
                )
        for name in wanted:
            if theirs[name].dtype not in FLOATS:
                raise RunError(
                    f"its tensor {name} is of {theirs[name].dtype}: quantized weights cannot be "
                    "imported; use the model before quantization"
                )
        return {
            entry.ours: entry.to_ours(theirs).to(torch.float32).contiguous()
            for entry in self.entries
        }

    def to_theirs(self, ours: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Their tensors, without copies; a `RunError` names our tensors that they lack."""
        named = {entry.ours for entry in self.entries}
        kept = {name for name in ours if not _matches(name, self.left_out)}
        if named != kept:
            raise RunError(f"tensors that the other format does not have: {_names(named ^ kept)}")
        found: dict[str, Tensor] = {}
        for entry in self.entries:
            found |= entry.to_theirs(ours[entry.ours])
        return found

    def is_optional(self, name: str) -> bool:
        """Whether a tensor of that name is optional in a file."""
        return name in self.copies or self._is_unused(name)

    def _is_unused(self, name: str) -> bool:
        return _matches(name, self.unused)


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(re.fullmatch(pattern, name) for pattern in patterns)


def _require_rows(tensor: Tensor, rows: int) -> None:
    if tensor.ndim == 0 or tensor.shape[0] != rows:
        raise RunError(f"a vocabulary of {rows:,} tokens has a tensor of {tuple(tensor.shape)}")


def _names(names: Collection[str]) -> str:
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return ", ".join(map(abbreviate, sorted(names)[:MAX_NAMED])) + more
