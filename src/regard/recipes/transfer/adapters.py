"""Adapters: low-rank updates of a run's weights, in a small file beside them."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import safetensors.torch
import torch
from pydantic import Field, PositiveInt
from safetensors import SafetensorError, safe_open
from torch import Tensor

from regard.atomic_io import write_atomic
from regard.errors import RunError
from regard.json_files import dump_json, parse_json
from regard.layers.low_rank import factorize
from regard.manifest import check_file, sha256_of_file
from regard.recipes.paths import find_adapter
from regard.settings import Settings

INFO = "adapter"  # the key of `AdapterInfo` in a file's metadata
UP, DOWN = ".up", ".down"  # the endings of the names of factors
TOLERANCE = 1e-5  # of the product of factors, relative to the largest weight of a matrix


class AdapterInfo(Settings):
    """Where an adapter came from, and what it is for."""

    base: str
    """SHA-256 of the weights that it updates."""
    rank: PositiveInt
    """The rank of its updates."""
    run: str
    """The run in which it was trained."""
    trained_on: str
    """The corpus that it was trained on."""
    temperature: float | None = Field(default=None, gt=0)
    """Of a classifier: the divisor of its logits, fitted to the validation data of `run`."""


class Adapter(NamedTuple):
    """Factors (N, r) and (r, D) of what is added to some of a model's matrices (N, D)."""

    info: AdapterInfo
    factors: Mapping[str, Tensor]  # NAME.up and NAME.down of a parameter NAME

    @property
    def numbers(self) -> int:
        """The number of its weights."""
        return sum(tensor.numel() for tensor in self.factors.values())

    @classmethod
    def between(
        cls, base: Mapping[str, Tensor], tuned: Mapping[str, Tensor], info: AdapterInfo
    ) -> "Adapter":
        """The adapter that turns the weights of the base into `tuned` ones. They may differ only in
        matrices, by updates of at most the rank of the adapter.
        """
        factors: dict[str, Tensor] = {}
        for name, weight in base.items():
            if torch.equal(weight, tuned[name]):
                continue
            difference = tuned[name].double() - weight.double()
            up, down = factorize(difference, info.rank)
            missed = float((up @ down - difference).abs().max())
            if missed > TOLERANCE * float(tuned[name].abs().max()):
                raise RunError(
                    f"{name}: its change has a higher rank than {info.rank}; the weights were not "
                    "trained by low-rank updates"
                )
            factors[name + UP], factors[name + DOWN] = up.float(), down.float()
        return cls(info, factors)

    def merge(self, weights: dict[str, Tensor]) -> dict[str, Tensor]:
        """The weights of the base with the adapter added; a RunError if it does not fit."""
        merged = dict(weights)
        names = {one.removesuffix(UP if one.endswith(UP) else DOWN) for one in self.factors}
        for name in sorted(names):
            up, down = self.factors.get(name + UP), self.factors.get(name + DOWN)
            weight = weights.get(name)
            if weight is None or up is None or down is None or not _fit(up, down, weight):
                raise RunError(f"the adapter's {name} does not fit the model")
            merged[name] = (weight.double() + up.double() @ down.double()).to(weight.dtype)
        return merged

    def save(self, path: Path) -> None:
        """Write its file."""
        metadata = {INFO: dump_json(self.info.model_dump(mode="json", exclude_none=True))}
        factors = {name: tensor.contiguous() for name, tensor in self.factors.items()}
        write_atomic(path, safetensors.torch.save(factors, metadata))

    @classmethod
    def load(cls, path: Path) -> "Adapter":
        """The adapter in a file; a RunError if it holds none."""
        check_file(path)
        try:
            with safe_open(path, "pt") as file:
                info = (file.metadata() or {}).get(INFO)
                factors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            if info is None:
                raise ValueError("it does not describe an adapter")
            return cls(AdapterInfo.model_validate(parse_json(info.encode())), factors)
        except (SafetensorError, OSError, ValueError) as error:
            raise RunError(f"{path}: damaged, or not an adapter: {error}") from None


def _fit(up: Tensor, down: Tensor, weight: Tensor) -> bool:
    """Whether `up` (N, r) times `down` (r, D) has the shape of a weight (N, D)."""
    matrices = up.ndim == down.ndim == 2 and up.shape[1] == down.shape[0]
    return matrices and weight.shape == (up.shape[0], down.shape[1])


def merge_adapter(
    run: Path, name: str, weights_file: Path, weights: dict[str, Tensor]
) -> dict[str, Tensor]:
    """The weights in a file of a run with an adapter added, which must belong to them."""
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
