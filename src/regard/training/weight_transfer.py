"""Initializes a model with the weights of another one, wherever names, shapes and rows agree."""

from collections import Counter
from collections.abc import Collection, Hashable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, Self

import torch
from pydantic import TypeAdapter
from torch import Tensor

from regard.models.contracts import AnyModel

NAMES_SHOWN = 3  # names of tensors that a line of a report lists

RowNames = Mapping[str, Sequence[Hashable]]
"""What the rows of tensors stand for, by kind: the pieces of a vocabulary, for example, or
labels."""


class TensorReport(NamedTuple):
    """A tensor of the old or the new model, and what happened to it."""

    name: str
    numbers: int
    remark: str = ""

    def __str__(self) -> str:
        return f"{self.name} ({self.remark})" if self.remark else self.name


class TransferLine(NamedTuple):
    """A line of the table of a transfer."""

    kind: str  # taken, new or left
    tensors: int
    numbers: int
    names: str


class WeightTransfer(NamedTuple):
    """Which weights a model took from another one, which are its own, and which were left."""

    taken: tuple[TensorReport, ...]
    new: tuple[TensorReport, ...]
    left: tuple[TensorReport, ...]

    @property
    def new_names(self) -> frozenset[str]:
        """The tensors of which the model has new rows, all or some of them."""
        return frozenset(one.name for one in self.new)

    def lines(self) -> list[TransferLine]:
        """The report as a table: a line for each kind."""
        return [
            TransferLine(kind, len(some), sum(one.numbers for one in some), _list_names(some))
            for kind, some in self._asdict().items()
        ]

    def to_json(self) -> dict[str, Any]:
        return {kind: [one._asdict() for one in some] for kind, some in self._asdict().items()}

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Self:
        """Parse what `to_json` wrote. Raises a `ValueError` for anything else."""
        return TypeAdapter(cls).validate_python({kind: raw.get(kind) for kind in cls._fields})


def _list_names(tensors: Sequence[TensorReport]) -> str:
    """The first names of some tensors; those with a remark come before the others."""
    names = [str(one) for one in sorted(tensors, key=lambda one: not one.remark)]
    more = f" and {len(names) - NAMES_SHOWN:,} more" if len(names) > NAMES_SHOWN else ""
    return ", ".join(names[:NAMES_SHOWN]) + more


def transfer_weights(
    model: AnyModel,
    given: Mapping[str, Tensor],
    *,
    own_rows: RowNames,
    given_rows: RowNames,
    mean_kinds: Collection[str] = (),
    parts: Mapping[str, Mapping[int, Sequence[int]]] = MappingProxyType({}),
) -> WeightTransfer:
    """Copy the weights `given` of another model into `model` where they fit, and report it.

    A tensor is looked up under its own name, and, if it belongs to a model inside this one
    (`inner_prefix`), under its name there. Where its rows have names (`named_rows`), the rows whose
    names both models have are taken. The other rows of `mean_kinds` become the mean of the taken
    rows, or of the given rows that `parts` lists for them, by kind and row.
    """
    taken, new, used = list[TensorReport](), list[TensorReport](), set[str]()
    kinds = model.named_rows()
    for name, tensor in model.state_dict().items():
        source = _name_in(given, name, model.inner_prefix)
        if source is None:
            new.append(TensorReport(name, tensor.numel()))
            continue
        other, kind = given[source], kinds.get(name)
        if kind is not None and tensor.shape[1:] == other.shape[1:]:
            own_names = _name_all(own_rows.get(kind, ()), len(tensor))
            given_names = _name_all(given_rows.get(kind, ()), len(other))
            rows, places = _shared_rows(own_names, given_names)
            numbers = len(rows) * tensor[:1].numel()
            remark = f"{len(rows):,} of {len(tensor):,} rows"
            with torch.no_grad():
                found = other[places].to(tensor)
                if kind in mean_kinds and len(found):
                    tensor[:] = found.mean(0)
                    for row, some in parts.get(kind, {}).items():
                        tensor[row] = other[list(some)].mean(0).to(tensor)
                    remark += f", the others {'means of parts' if kind in parts else 'their mean'}"
                tensor[rows.to(tensor.device)] = found
        elif tensor.shape == other.shape:
            numbers, remark = tensor.numel(), ""
            tensor.copy_(other)
        else:
            numbers, remark = 0, f"{_format_shape(other)} there, {_format_shape(tensor)} here"
        if numbers:
            used.add(source)
            taken.append(TensorReport(name, numbers, remark if numbers < tensor.numel() else ""))
        if numbers < tensor.numel():
            new.append(TensorReport(name, tensor.numel() - numbers, remark if not numbers else ""))
    left = (TensorReport(name, x.numel()) for name, x in given.items() if name not in used)
    return WeightTransfer(tuple(taken), tuple(new), tuple(left))


def _name_in(given: Mapping[str, Tensor], name: str, inner_prefix: str) -> str | None:
    """The name of a tensor in another model, which may correspond to the model inside this one."""
    inner = name.removeprefix(inner_prefix)
    return next((one for one in (name, inner) if one in given), None)


def _name_all(names: Sequence[Hashable], count: int) -> list[Hashable]:
    """The names of `count` rows; rows beyond the last name are named by their number after it."""
    return [*names[:count], *(("row", number) for number in range(count - len(names)))]


def _shared_rows(own: Sequence[Hashable], given: Sequence[Hashable]) -> tuple[Tensor, Tensor]:
    """The rows (R,) whose names both have, and their indices among the given rows (R,).

    Rows are matched by position up to the first difference, then by names that occur once in both.
    """
    alike = zip(own, given, strict=False)
    first = next((n for n, (one, two) in enumerate(alike) if one != two), min(len(own), len(given)))
    once = {name for name, count in Counter(given).items() if count == 1}
    places = {name: place for place, name in enumerate(given) if name in once}
    repeated = {name for name, count in Counter(own).items() if count > 1}
    pairs = [(row, row) for row in range(first)] + [
        (row, places[name])
        for row, name in enumerate(own[first:], first)
        if name in places and name not in repeated
    ]
    rows, found = zip(*pairs, strict=True) if pairs else ((), ())
    return torch.tensor(rows, dtype=torch.long), torch.tensor(found, dtype=torch.long)


def _format_shape(tensor: Tensor) -> str:
    return " × ".join(f"{size:,}" for size in tensor.shape) or "1"
