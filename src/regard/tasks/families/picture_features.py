"""A model's input for a picture: region states of a frozen CNN, or pixels; computed once."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.atomic_io import read_limited, write_atomic
from regard.corpora.array_store import Array, ArrayStore, prepare_array_store
from regard.corpora.corpus import SplitName
from regard.corpora.download import cache_folder, data_folder
from regard.corpora.source import CorpusPicture
from regard.errors import SettingsError
from regard.exchange.pretrained_cnn import PretrainedCnn, load_efficientnet
from regard.images.picture_files import FRAMINGS, Framing, Picture, Resampling
from regard.iterate import chunked
from regard.layers.efficientnet import PICTURE_SIZE
from regard.manifest import check_file, sha256
from regard.models.vision.encoder_settings import (
    EncoderSettings,
    FrozenCnnSettings,
    SmallCnnSettings,
)
from regard.types import Pixels, Regions

PREPROCESSING = "middle square, bicubic, bytes"
"""Part of a fingerprint: change it whenever `crop_square` changes."""
PICTURES_AT_ONCE = 25
ENCODER_FILE = "encoder.safetensors"  # of a run with a frozen encoder
DEFAULT_WEIGHTS = "models/efficientnet-lite0/model.safetensors"  # in the data folder

CPU = torch.device("cpu")


@dataclass(frozen=True)
class RegionFeatures:
    """The states of a frozen CNN after one of its blocks, for each region of a picture: (S, D)."""

    pretrained: PretrainedCnn
    block: int
    device: torch.device = CPU

    @property
    def fingerprint(self) -> str:
        """A hash that changes when the same picture would give other numbers."""
        said = f"{self.pretrained.sha256} {self.block} {PREPROCESSING} {PICTURE_SIZE} float16"
        return sha256(said.encode())

    def to_inputs(self, values: Array) -> Regions:
        """Features (B, S, D) as the model's input."""
        return Regions(torch.from_numpy(values))

    @torch.inference_mode()
    def compute(self, pictures: Sequence[Picture]) -> Array:
        """(N, S, D), in float16."""
        cnn = self.pretrained.cnn.to(self.device)
        regions = []
        for some in chunked(pictures, PICTURES_AT_ONCE):
            pixels = stack_pixels(some, PICTURE_SIZE).to(self.device)  # (B, 3, 224, 224)
            regions.append(cnn.regions(pixels, self.block).half().cpu().numpy())
        return np.concatenate(regions)


@dataclass(frozen=True)
class PixelFeatures:
    """The bytes of a picture's middle, or of all of it: (3, size, size)."""

    size: int
    framing: Framing = "crop"
    resampling: Resampling = "bicubic"

    @property
    def fingerprint(self) -> str:
        """A hash that changes when the same picture would give other numbers."""
        how = PREPROCESSING
        if (self.framing, self.resampling) != ("crop", "bicubic"):
            how = f"{self.framing}, {self.resampling}, bytes"
        return sha256(f"pixels {how} {self.size}".encode())

    def to_inputs(self, values: Array) -> Pixels:
        """Features (B, 3, size, size) as the model's input."""
        return Pixels(torch.from_numpy(values))

    def compute(self, pictures: Sequence[Picture]) -> Array:
        """(N, 3, size, size)"""
        pixels = stack_pixels(pictures, self.size, self.framing, self.resampling)
        return pixels.contiguous().numpy()


PictureFeatures = RegionFeatures | PixelFeatures


def _load_regions(settings: FrozenCnnSettings, folder: Path) -> RegionFeatures:
    file = folder / ENCODER_FILE
    check_file(file)
    return RegionFeatures(load_efficientnet(file), settings.block)


def _load_pixels(settings: SmallCnnSettings, folder: Path) -> PixelFeatures:
    return PixelFeatures(settings.picture_size)


LOADERS: dict[str, Callable[[Any, Path], PictureFeatures]] = {
    "efficientnet-lite0": _load_regions,
    "cnn": _load_pixels,
}
"""The kind of features that each kind of encoder needs."""


def load_features(settings: EncoderSettings, folder: Path) -> PictureFeatures:
    """The features that the model of a run in `folder` needs."""
    return LOADERS[settings.kind](settings, folder)


def keep_encoder(settings: EncoderSettings, folder: Path) -> None:
    """Copy the weights of a frozen encoder into a run, if it has one."""
    if not settings.is_frozen:
        return
    data = data_folder()
    path = settings.weights or (data and os.fspath(data / DEFAULT_WEIGHTS))
    if path is None or not Path(path).is_file():
        raise SettingsError(
            f"model.encoder.weights: {path or 'not given, and $REGARD_DATA is not set'}: no such "
            "file; name the safetensors file of EfficientNet-Lite0, or put it at "
            f"$REGARD_DATA/{DEFAULT_WEIGHTS}"
        )
    load_efficientnet(Path(path))  # raises an error if it is not such a file
    write_atomic(folder / ENCODER_FILE, read_limited(Path(path), "array"))


def stack_pixels(
    pictures: Sequence[Picture],
    size: int,
    framing: Framing = "crop",
    resampling: Resampling = "bicubic",
) -> Tensor:
    """Square crops of pictures, as bytes (B, 3, size, size), channels last in memory."""
    square = FRAMINGS[framing]
    squares = np.stack([square(picture.pixels, size, resampling) for picture in pictures])
    return torch.from_numpy(squares).permute(0, 3, 1, 2)


class FeatureStores:
    """The features of the pictures of each split, computed unless they are in the cache.

    `note` gets the progress every `note_every` pictures.
    """

    def __init__(
        self, pictures: Callable[[SplitName], Sequence[CorpusPicture]], note_every: int
    ) -> None:
        self._pictures, self._note_every = pictures, note_every
        self._stores: dict[SplitName, ArrayStore] = {}
        self.note: Callable[[str], None] = lambda message: None

    def of_split(self, features: PictureFeatures, split: SplitName) -> ArrayStore:
        """The features of a split, kept once they are known."""
        if split not in self._stores:
            self._stores[split] = self._prepare(features, split)
        return self._stores[split]

    def _prepare(self, features: PictureFeatures, split: SplitName) -> ArrayStore:
        pictures = self._pictures(split)
        total, marks = len(pictures), "\n".join(picture.mark for picture in pictures)
        name = sha256(f"{features.fingerprint}\n{marks}".encode())[:32]

        def compute(rows: range) -> Array:
            return features.compute([pictures[row].read() for row in rows])

        def progress(done: int) -> None:
            if done % self._note_every == 0 and done < total:
                self.note(f"{split}: {done:,} of {total:,} pictures read")

        return prepare_array_store(cache_folder() / "pictures" / name, total, compute, progress)
