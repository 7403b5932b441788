"""The task of sorting pictures into classes."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import torch
from pydantic import TypeAdapter

from regard.atomic_io import write_atomic
from regard.batching.example_batches import Rows
from regard.corpora.array_store import Array, ArrayStore
from regard.corpora.classification.labelled_pictures import (
    LabelledPicture,
    LabelledPictureSettings,
    PictureSplits,
    file_digest,
    read_labelled_pictures,
)
from regard.corpora.classification.labels import label_set
from regard.corpora.corpus import ReadReport
from regard.corpora.download import cache_folder
from regard.errors import RunError, SettingsError
from regard.evaluation.classification import LabelIds
from regard.images.augmentation import AugmentationSettings, augment, mix
from regard.json_files import dump_json, load_json
from regard.models.contracts import PICTURE_LABELS, AnyModel, PicturePredictor
from regard.models.vision.classifiers import PictureClassifierSettings, build_picture_classifier
from regard.models.vision.vit import VitSettings
from regard.tasks.contracts import Notify, SplitName
from regard.tasks.families.classification import (
    ADVICE,
    SPLITS,
    ClassificationRecipe,
    ClassificationTask,
    ClassificationTrainingSettings,
    InputsOf,
)
from regard.tasks.families.corpus_files import file_names, skips_bad
from regard.tasks.families.picture_features import PixelFeatures, prepare_features
from regard.tasks.families.split_files import SplitFiles
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

    @classmethod
    def corpus_of_files(cls, own: Mapping[str, Any], files: Mapping[str, Any]) -> dict[str, Any]:
        """Folders of classes; `own` sets which of their pictures are held out."""
        named = file_names(files, skip_bad=True, many=False)
        cut = (f"{split}_share" for split in ("valid", "test") if split not in named)
        kept = {key: own[key] for key in cut if key in own}
        folders = {split: name for split, [name] in named.items()}
        return {**kept, **folders, **({"skip_bad": True} if skips_bad(files) else {})}


class PictureClassification(ClassificationTask[PictureClassificationRecipe]):
    """Names and labels are kept in the run, pixels in the cache."""

    def __init__(self, recipe: PictureClassificationRecipe, folder: Path) -> None:
        super().__init__(recipe, folder)
        model = recipe.model
        self.features = PixelFeatures(model.picture_size, model.framing, model.resampling)
        self.splits = SplitFiles(folder)
        self._corpus: PictureSplits | None = None
        self._stores: dict[SplitName, ArrayStore] = {}
        self._pixels: dict[SplitName, ReadPixels] = {}
        self._note: Notify = lambda message: None

    # -- data -----------------------------------------------------------------------------------

    def prepare(self, note: Notify, *, resumed: bool) -> None:
        self._note = note
        if not resumed:
            report, corpus = ReadReport(), self.recipe.corpus
            with report.told_to(note):
                self._corpus = read_labelled_pictures(corpus, report, check_pictures=True)
            labels = {split: [one.label for one in some] for split, some in self._corpus.items()}
            self.save_labels(label_set(labels, corpus.files_label, note))
            for split, pictures in self._corpus.items():
                self.splits.write(split, map(_picture_row, pictures))
            write_atomic(self._folders_file, dump_json(corpus.absolute_folders()).encode())
        self.load()
        for split in filter(self.has_split, SPLITS):  # a damaged picture ends it before training
            self.store(split)

    def read_test(self, files: Sequence[str], folder: Path) -> None:
        corpus = self.recipe.of_test_files(files).corpus
        pictures = read_labelled_pictures(corpus, ReadReport())["test"]
        self.check_labels([one.label for one in pictures])
        self.splits, self._corpus = SplitFiles(folder), {"test": pictures}
        self._stores, self._pixels = {}, {}
        self.splits.write("test", map(_picture_row, pictures))

    def has_split(self, split: SplitName) -> bool:
        return self.splits.exists(split)

    def label_ids(self, split: SplitName) -> LabelIds:
        numbers = {label: number for number, label in enumerate(self.labels)}
        rows = self.splits.read(split, "label")
        return np.array([numbers[label] for (label,) in rows], np.int64)

    def pixels(self, split: SplitName) -> ReadPixels:
        """The pixels of a split's pictures."""
        if split not in self._pixels:
            store = self.store(split)
            small = len(store) * math.prod(store.row_shape) <= MAX_BYTES_IN_MEMORY
            self._pixels[split] = store.read_all().__getitem__ if small else store.rows
        return self._pixels[split]

    def store(self, split: SplitName) -> ArrayStore:
        """The pixels of a split's pictures on disk, computed unless they are in the cache."""
        if split not in self._stores:
            self._stores[split] = prepare_features(
                self.features,
                self._pictures(split),
                cache_folder(),
                self._note,
                split=split,
                note_every=NOTE_EVERY,
            )
        return self._stores[split]

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
        known = {(one.name, one.label): one for some in self._all_splits(split) for one in some}
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

    def _all_splits(self, last: SplitName) -> list[list[LabelledPicture]]:
        """The pictures of all splits, those of the split `last` at the end."""
        splits = self._corpus or {}
        return [some for name, some in splits.items() if name != last] + [splits.get(last, [])]

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


def _picture_row(picture: LabelledPicture) -> dict[str, str]:
    """The record of a picture in a run."""
    row = {"picture": picture.name, "label": picture.label}
    return {**row, "sha256": picture.digest} if picture.digest else row


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
