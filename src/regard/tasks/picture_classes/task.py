"""The task of sorting pictures into classes."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal, Self

import torch
from pydantic import TypeAdapter

from regard.atomic_io import write_atomic
from regard.batching.example_batches import Rows
from regard.corpora.array_store import Array, ArrayStore
from regard.corpora.corpus import ReadReport
from regard.corpora.source import SPLITS, rows_by_key
from regard.errors import RunError, SettingsError
from regard.images.augmentation import AugmentationSettings, augment, mix
from regard.json_files import dump_json, load_json
from regard.models.contracts import PICTURE_LABELS, AnyModel, PicturePredictor
from regard.models.vision.classifiers import PictureClassifierSettings, build_picture_classifier
from regard.models.vision.vit import VitSettings
from regard.tasks.contracts import Notify, SplitName
from regard.tasks.families.classification import (
    ADVICE,
    ClassificationRecipe,
    ClassificationTask,
    ClassificationTrainingSettings,
    InputsOf,
)
from regard.tasks.families.picture_features import FeatureStores, PixelFeatures
from regard.tasks.picture_classes.data import (
    LabelledPicture,
    LabelledPictureSettings,
    PictureSplits,
    file_digest,
    read_labelled_pictures,
)
from regard.training.loss import Loss, LossFn, soft_label_loss
from regard.training.weight_transfer import RowNames
from regard.types import AnyBatch, Pixels

FOLDERS_FILE = "folders.json"  # in a run's data folder: where the pictures of its splits were
NOTE_EVERY = 10_000  # pictures, while they are read
MAX_BYTES_IN_MEMORY = 2 << 30  # of the pixels of a split; those of a larger one are read from disk

ReadPixels = Callable[[Rows], Array]  # numbers of pictures (B,) -> (B, 3, size, size)


class PictureTrainingSettings(ClassificationTrainingSettings):
    """How a classifier of pictures is trained."""

    augmentation: AugmentationSettings = AugmentationSettings()
    """Random changes of training pictures, applied on the device."""


class PictureClassificationRecipe(ClassificationRecipe):
    """One run of a classifier of pictures: its data, its model and its training."""

    task: Literal["picture-classification"]
    """The task: predicting the class of a picture."""
    corpus: LabelledPictureSettings
    """The training data."""
    model: PictureClassifierSettings = VitSettings()
    """The model; `family` selects its kind."""
    training: PictureTrainingSettings = PictureTrainingSettings()
    """How the model is trained."""


class PictureClassification(ClassificationTask[PictureClassificationRecipe]):
    """Names and labels are kept in the run, pixels in the cache."""

    nouns = "pictures"

    def __init__(self, recipe: PictureClassificationRecipe, folder: Path) -> None:
        super().__init__(recipe, folder)
        model = recipe.model
        self.features = PixelFeatures(model.picture_size, model.framing, model.resampling)
        self.stores = self._new_stores()
        self._corpus: PictureSplits | None = None
        self._pixels: dict[SplitName, ReadPixels] = {}

    # -- data -----------------------------------------------------------------------------------

    def prepare(self, note: Notify, *, resumed: bool) -> None:
        self.stores.note = note
        if not resumed:
            self.read_into_run(note)
            folders = dump_json(self.recipe.corpus.absolute_folders())
            write_atomic(self._folders_file, folders.encode())
        self.load()
        for split in filter(self.has_split, SPLITS):  # a damaged picture ends it before training
            self.store(split)

    def read_corpus(self, corpus: LabelledPictureSettings, report: ReadReport) -> PictureSplits:
        own = corpus is self.recipe.corpus
        self._corpus = read_labelled_pictures(corpus, report, check_pictures=own)
        return self._corpus

    def read_test(self, files: Sequence[str], folder: Path) -> None:
        super().read_test(files, folder)
        self.stores, self._pixels = self._new_stores(), {}

    def pixels(self, split: SplitName) -> ReadPixels:
        """The pixels of a split's pictures."""
        if split not in self._pixels:
            store = self.store(split)
            small = len(store) * math.prod(store.row_shape) <= MAX_BYTES_IN_MEMORY
            self._pixels[split] = store.read_all().__getitem__ if small else store.rows
        return self._pixels[split]

    def store(self, split: SplitName) -> ArrayStore:
        """The pixels of a split's pictures on disk, computed unless they are in the cache."""
        return self.stores.of_split(self.features, split)

    def _new_stores(self) -> FeatureStores:
        return FeatureStores(self._pictures, NOTE_EVERY)

    def inputs_of(self, split: SplitName) -> InputsOf:
        pixels, features = self.pixels(split), self.features

        def inputs(rows: Rows) -> Pixels:
            return features.to_inputs(pixels(rows))

        return inputs

    def _pictures(self, split: SplitName) -> list[LabelledPicture]:
        """The pictures that the run read for a split, whichever split of the corpus has
        them now.
        """
        if self._corpus is None:
            self._corpus = read_labelled_pictures(self._located_corpus(), ReadReport())
        known = rows_by_key(self._corpus, split, lambda picture: (picture.name, picture.label))
        found, lost, changed = list[LabelledPicture](), list[str](), list[str]()
        for name, label, digest in self.splits.read(split, "picture", "label", optional="sha256"):
            if (one := known.get((name, label))) is None:
                lost.append(f"{name} is gone")
                continue
            found.append(one)
            if digest and file_digest(one) != digest:
                changed.append(f"{name} has changed")
        if wrong := [*lost, *changed]:
            raise RunError(
                f"{self.folder}: {self.recipe.corpus.corpus_label} no longer has all of its "
                f"{split} pictures: {wrong[0]}; restore it, or train again in another folder"
            )
        return found

    @property
    def _folders_file(self) -> Path:
        return self.folder / "data" / FOLDERS_FILE

    def _located_corpus(self) -> LabelledPictureSettings:
        """The corpus, with its folders where they were at training time if they still exist."""
        corpus = self.recipe.corpus
        if not self._folders_file.exists():
            return corpus
        kept = load_json(self._folders_file, TypeAdapter(dict[str, str]), advice=ADVICE)
        there = {split: folder for split, folder in kept.items() if Path(folder).is_dir()}
        return corpus.model_copy(update=there)

    # -- learning -------------------------------------------------------------------------------

    def new_model(self) -> PicturePredictor:
        return build_picture_classifier(self.recipe.model, len(self.labels))

    def row_names(self) -> RowNames:
        return {PICTURE_LABELS: self.labels}

    def loss(self) -> LossFn:
        settings = self.recipe.training
        return partial(
            augmented_loss,
            classes=len(self.labels),
            augmentation=settings.augmentation,
            smoothing=settings.label_smoothing,
        )

    def summary(self) -> dict[str, str]:
        model = self.recipe.model
        size = f"{model.picture_size} × {model.picture_size} pixels"
        return {
            **super().summary(),
            "pictures": f"{size}, patches of {model.patch} × {model.patch}",
        }

    def check_same_examples(
        self, other: Self, split: SplitName, *, option: str = "--against"
    ) -> None:
        ours, theirs = (
            ({*one.labels}, one.splits.read(split, "picture", "label")) for one in (self, other)
        )
        if ours != theirs:
            raise SettingsError(f"{option}: {other.folder} has other {split} pictures or labels")


def augmented_loss(
    model: AnyModel,
    batch: AnyBatch,
    *,
    classes: int,
    augmentation: AugmentationSettings,
    smoothing: float,
) -> Loss:
    """The loss on pictures that are randomly changed, and perhaps mixed."""
    kind = batch.labels.device.type
    with torch.no_grad(), torch.autocast(kind, enabled=False):  # bfloat16 would round pixels
        pixels = augment(batch.inputs.values, augmentation)
        every = torch.arange(classes, device=batch.labels.device)
        labels = (batch.labels[:, None] == every).float()  # (B, V)
        if augmentation.mixes:
            pixels, labels = mix(pixels, labels, augmentation)
    return soft_label_loss(model, replace(batch, inputs=Pixels(pixels), labels=labels), smoothing)
