"""CTranslate2's `model.bin`: named arrays, read with hostile input in mind.

The format is that of `ctranslate2.specs.model_spec` and of older versions from 2 on: little-endian
numbers, strings that end in a zero byte, variables with name, shape, type and content, and from
version 3 on aliases of variables. Every count is checked against what is left of the file before
anything is read. The file is memory-mapped; arrays are views of it until they are converted.
"""

import mmap
import os
import stat
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from regard.errors import RunError
from regard.settings import abbreviate

MODEL_FILE = "model.bin"
VERSIONS = range(2, 7)
TYPED_VERSION = 4  # variables have a type from this version on; before, an item's size implies it
ALIAS_VERSION = 3
MAX_RANK = 4
MAX_NAME_BYTES = 512
INT16_SCALE = 1000.0  # scale of int16 weights of old models without their own scale
TYPES = (torch.float32, torch.int8, torch.int16, torch.int32, torch.float16, torch.bfloat16)
TYPES_BY_SIZE = {4: torch.float32, 2: torch.int16, 1: torch.int8}
FLOATS = (torch.float32, torch.float16, torch.bfloat16)


class Ct2Variables(NamedTuple):
    """The content of a `model.bin`."""

    specification: str  # the name of the kind of model
    revision: int
    tensors: Mapping[str, Tensor]  # views of the file, under all of their names

    def weight(self, name: str) -> Tensor:
        """A weight in float32; a quantized one is divided by its scale."""
        tensor = self.tensors[name]
        if tensor.dtype in FLOATS:
            return tensor.float()
        if tensor.dtype not in (torch.int8, torch.int16):
            raise RunError(f"its weight {name} is of {tensor.dtype}, which weights cannot be")
        scale = self.tensors.get(f"{name}_scale")
        if scale is None:
            if tensor.dtype == torch.int8:
                raise RunError(f"its weight {name} is of int8 but has no {name}_scale")
            return tensor.float() / INT16_SCALE
        if scale.dtype not in FLOATS or scale.numel() not in (1, len(tensor)):
            raise RunError(
                f"its {name}_scale has {scale.numel()} numbers of {scale.dtype} for "
                f"{len(tensor)} rows"
            )
        return tensor.float() / scale.float().view(-1, *[1] * (tensor.ndim - 1))


def read_variables(path: Path) -> Ct2Variables:
    """The variables of a `model.bin`; a `RunError` says what is wrong with the file."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise RunError(f"{path}: cannot be read: {error.strerror}") from None
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode) or not found.st_size:
            raise RunError(f"{path}: empty, or not a plain file")
        content = mmap.mmap(handle, 0, access=mmap.ACCESS_COPY)  # private: torch wants to write
    finally:
        os.close(handle)
    try:
        return _Reader(content).variables()
    except _FormatError as error:
        raise RunError(f"{path}: not a CTranslate2 model, or damaged: {error}") from None


class _FormatError(Exception):
    """How a file violates the format."""


@dataclass
class _Reader:
    content: mmap.mmap
    position: int = 0
    tensors: dict[str, Tensor] = field(default_factory=dict)

    def variables(self) -> Ct2Variables:
        version = self._number("I")
        if version not in VERSIONS:
            raise _FormatError(
                f"its version is {version}; supported are {VERSIONS[0]} to {VERSIONS[-1]}"
            )
        specification, revision = self._string(), self._number("I")
        for _ in range(self._number("I")):
            name, tensor = self._string(), self._tensor(version)
            self._register(name, tensor)
        if version >= ALIAS_VERSION:
            for _ in range(self._number("I")):
                self._alias(self._string(), self._string())
        if rest := len(self.content) - self.position:
            raise _FormatError(f"{rest:,} bytes follow its end")
        return Ct2Variables(specification, revision, self.tensors)

    def _tensor(self, version: int) -> Tensor:
        rank = self._number("B")
        if rank > MAX_RANK:
            raise _FormatError(f"an array has {rank} axes, and at most {MAX_RANK} are supported")
        shape = [self._number("I") for _ in range(rank)]
        kind = self._number("B")
        if version >= TYPED_VERSION:
            if kind >= len(TYPES):
                raise _FormatError(f"an array is of an unknown type, {kind}")
            dtype, size = TYPES[kind], self._number("I")
        else:
            if kind not in TYPES_BY_SIZE:
                raise _FormatError(f"an array has items of {kind} bytes")
            dtype, size = TYPES_BY_SIZE[kind], self._number("I") * kind
        if prod(shape) * dtype.itemsize != size:
            raise _FormatError(f"an array of shape {shape} has {size:,} bytes of {dtype}")
        place = self._take(size)
        if not size:
            return torch.empty(shape, dtype=dtype)
        flat = torch.from_numpy(np.frombuffer(self.content, np.uint8, size, place))
        if place % dtype.itemsize:  # a view must begin at a multiple of its items' size
            flat = flat.clone()
        return flat.view(dtype).view(shape)

    def _register(self, name: str, tensor: Tensor) -> None:
        if name in self.tensors:
            raise _FormatError(f"it holds {name!r} twice")
        self.tensors[name] = tensor

    def _alias(self, name: str, existing: str) -> None:
        if existing not in self.tensors:
            raise _FormatError(f"{name!r} is an alias of {existing!r}, which does not exist")
        self._register(name, self.tensors[existing])
        if f"{existing}_scale" in self.tensors:
            self._register(f"{name}_scale", self.tensors[f"{existing}_scale"])

    def _string(self) -> str:
        size = self._number("H")
        if not 0 < size <= MAX_NAME_BYTES:
            raise _FormatError(f"a name has {size} bytes")
        place = self._take(size)
        found = self.content[place : place + size]
        try:
            if found.index(0) == size - 1:
                return found[:-1].decode()
        except ValueError:  # also UnicodeDecodeError
            pass
        raise _FormatError(f"{abbreviate(repr(found))} is not a name")

    def _number(self, kind: str) -> int:
        number: int
        (number,) = struct.unpack_from(f"<{kind}", self.content, self._take(struct.calcsize(kind)))
        return number

    def _take(self, size: int) -> int:
        """The offset of the next `size` bytes, all of which must be in the file."""
        place, end = self.position, self.position + size
        if end > len(self.content):
            raise _FormatError(
                f"it ends at byte {len(self.content):,}, and {size:,} should follow byte {place:,}"
            )
        self.position = end
        return place
