"""Adapters: low-rank updates of a run's matrices and new vectors, in a small file beside them."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import safetensors.torch
import torch
from pydantic import PositiveInt
from safetensors import SafetensorError, safe_open
from torch import Tensor

from regard.atomic_io import write_atomic
from regard.errors import RunError
from regard.json_files import dump_json, parse_json
from regard.layers.low_rank import factorize
from regard.manifest import check_file, sha256_of_file
from regard.recipes.paths import find_adapter
from regard.settings import Settings

INFO = "adapter"  # the entry of a file's metadata with what it is
UP, DOWN = ".up", ".down"  # how the names of factors end
WHOLE = ".whole"  # how the names of vectors end, which are stored as they became
TOLERANCE = 1e-5  # largest error of the factors, relative to the largest weight of a matrix


class AdapterInfo(Settings):
    """Where an adapter came from, and what it is for."""

    base: str
    """SHA-256 of the weights that it is for."""
    rank: PositiveInt
    """Of its updates."""
    run: str
    """The run that it was trained as."""
    trained_on: str
    """The corpus that it was trained on."""


class Adapter(NamedTuple):
    """Factors (N, r) and (r, D) of what is added to some of a model's matrices (N, D), and what
    takes the place of some of its vectors.
    """

    info: AdapterInfo
    tensors: Mapping[str, Tensor]  # NAME.up and NAME.down of a matrix NAME, NAME.whole of a vector

    @property
    def numbers(self) -> int:
        """How many weights it has."""
        return sum(tensor.numel() for tensor in self.tensors.values())

    @classmethod
    def between(
        cls, base: Mapping[str, Tensor], tuned: Mapping[str, Tensor], info: AdapterInfo
    ) -> "Adapter":
        """The adapter that turns the base weights into the `tuned` ones; a RunError if a matrix
        differs by one of a higher rank than the adapter's.
        """
        tensors: dict[str, Tensor] = {}
        for name, weight in base.items():
            if torch.equal(weight, tuned[name]):
                continue
            if weight.ndim == 1:
                tensors[name + WHOLE] = tuned[name]
                continue
            difference = tuned[name].double() - weight.double()
            up, down = factorize(difference, info.rank)
            missed = float((up @ down - difference).abs().max())
            if missed > TOLERANCE * float(tuned[name].abs().max()):
                raise RunError(
                    f"{name}: its change has a higher rank than {info.rank}, as of weights that "
                    "were not trained by low-rank updates"
                )
            tensors[name + UP], tensors[name + DOWN] = up.float(), down.float()
        return cls(info, tensors)

    def merge(self, weights: dict[str, Tensor]) -> dict[str, Tensor]:
        """The weights of the base with the adapter added; a RunError where it does not fit."""
        merged = dict(weights)
        for stored in self.tensors:
            name, dot, ending = stored.rpartition(".")
            if dot + ending == UP:
                merged[name] = self._updated(name, weights.get(name))
            elif dot + ending == WHOLE:
                merged[name] = self._replaced(name, weights.get(name))
        return merged

    def _updated(self, name: str, weight: Tensor | None) -> Tensor:
        up, down = self.tensors[name + UP], self.tensors.get(name + DOWN)
        if weight is None or down is None or weight.shape != (len(up), *down.shape[1:]):
            raise RunError(f"the adapter's {name} does not fit the model")
        return (weight.double() + up.double() @ down.double()).to(weight.dtype)

    def _replaced(self, name: str, weight: Tensor | None) -> Tensor:
        whole = self.tensors[name + WHOLE]
        if weight is None or weight.shape != whole.shape:
            raise RunError(f"the adapter's {name} does not fit the model")
        return whole.to(weight.dtype)

    def save(self, path: Path) -> None:
        """Write its file."""
        metadata = {INFO: dump_json(self.info.model_dump(mode="json"))}
        tensors = {name: tensor.contiguous() for name, tensor in self.tensors.items()}
        write_atomic(path, safetensors.torch.save(tensors, metadata))

    @classmethod
    def load(cls, path: Path) -> "Adapter":
        """The adapter in a file; a RunError if it holds none."""
        check_file(path)
        try:
            with safe_open(path, "pt") as file:
                info = (file.metadata() or {}).get(INFO)
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            if info is None:
                raise ValueError("it says nothing of an adapter")
            return cls(AdapterInfo.model_validate(parse_json(info.encode())), tensors)
        except (SafetensorError, OSError, ValueError) as error:
            raise RunError(f"{path}: damaged, or no adapter: {error}") from None


def merge_adapter(
    run: Path, name: str, weights_file: Path, weights: dict[str, Tensor]
) -> dict[str, Tensor]:
    """The weights in a file of a run with an adapter added, which must be made for them."""
    file = find_adapter(run, name)
    adapter = Adapter.load(file)
    if sha256_of_file(weights_file) != adapter.info.base:
        raise RunError(
            f"{file}: made for other weights than {weights_file}: SHA-256 {adapter.info.base}; "
            "use it with the run that it was trained from"
        )
    try:
        return adapter.merge(weights)
    except RunError as error:
        raise RunError(f"{file}: {error}") from None
