"""A saved classifier as a function of pictures."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text
from torch import Tensor

from regard.errors import SettingsError
from regard.evaluation.classification import Logits
from regard.images.picture_files import ENLARGED, Picture, find_pictures
from regard.inspection.interventions import HeadChange, HeadCounts, Silenced
from regard.inspection.plots.figure import ThemeName
from regard.inspection.plots.picture_words import plot_picture_patches
from regard.inspection.recording.patch_attention import (
    PatchLayerWeights,
    build_patch_attention,
    head_counts,
    patch_layers,
)
from regard.inspection.recording.picture_attention import PictureAttention
from regard.inspection.recording.recorder import AttentionRecorder, compose_hooks
from regard.inspection.viewer.html_page import render_page
from regard.inspection.viewer.layer_maps import encode_layer
from regard.models.contracts import PicturePredictor
from regard.tasks.families.answer import Answer, Candidate
from regard.tasks.families.label_pipeline import (
    Classification,
    LabelPipeline,
    LikelyLabel,
)
from regard.tasks.families.pictures import (
    PictureName,
    answer_pictures,
    picture_address,
    read_only_picture,
    shown_pixels,
)
from regard.tasks.families.pipeline import ablate_heads
from regard.tasks.families.viewer_document import HeadAblation, patch_document
from regard.tasks.picture_classes.task import PictureClassification
from regard.types import AttentionHook

PICTURES_AT_ONCE = 64


class PictureLabelPipeline(
    LabelPipeline[PictureClassification, PicturePredictor, "ClassifiedPicture"]
):
    """A classifier as a function of pictures, one or many."""

    names_examples = True
    look_part = "encoder"
    look_options = "layer head"

    def find(self, arguments: Sequence[str]) -> list[str]:
        """The named files, blank names included, and all pictures of folders."""
        return list(find_pictures(arguments))

    def stream(self, given: Sequence[str]) -> Iterator["ClassifiedPicture"]:
        """An answer for each picture, in order; one that cannot be read has an `error`."""
        return answer_pictures(
            given,
            PICTURES_AT_ONCE,
            self._labelled,
            lambda name, error: ClassifiedPicture(name, (), error=error),
        )

    def _labelled(
        self, named: Sequence[tuple[str, Picture]], first: int
    ) -> list["ClassifiedPicture"]:
        pictures = [picture for _, picture in named]
        found = self.voted_labels(partial(PictureLabelPipeline._logits, pictures=pictures))
        return [
            ClassifiedPicture(name, labels, notes=self._notes(picture))
            for (name, picture), labels in zip(named, found, strict=True)
        ]

    @torch.inference_mode()
    def _logits(self, pictures: Sequence[Picture], hook: AttentionHook | None = None) -> Logits:
        """(N, V)"""
        features = self.task.features
        inputs = features.to_inputs(features.compute(pictures)).to(self.device)
        return np.asarray(self.model(inputs, hook=hook).double().cpu().numpy())

    def _notes(self, picture: Picture) -> tuple[str, ...]:
        size, (height, width) = self.task.features.size, picture.pixels.shape[:2]
        larger = min(height, width) < size
        notes = tuple(note for note in picture.notes if larger or not note.endswith(ENLARGED))
        taken = {"crop": "the square in the middle", "stretch": "all of it, squeezed"}
        what = taken[self.task.features.framing]
        scaled = f"{width} × {height} pixels: {what}, scaled to {size} × {size}"
        return (*notes, scaled) if height != width else notes

    # -- looking --------------------------------------------------------------------------------

    def look(
        self,
        pictures: PictureName | Sequence[str],
        *,
        changes: Sequence[HeadChange] = (),
    ) -> "ClassifiedPicture":
        """The labels of a picture with the attention of each head, under `changes`; a list has one
        picture.
        """
        return self.look_under(changes, partial(self._look, *read_only_picture(pictures)))

    def _look(
        self, name: str, picture: Picture, changes: Sequence[HeadChange]
    ) -> "ClassifiedPicture":
        recorder = AttentionRecorder()
        logits = self._logits([picture], compose_hooks(*changes, recorder))
        before = self._logits([picture]) if changes else None
        [labels] = self.likely_labels(logits, before)
        layers = patch_layers(
            recorder.weights(),
            recorder.windows,
            self.model.grid,
            class_token=self.model.class_token,
        )
        counts = head_counts(layers)
        pixels = shown_pixels(picture, self.task.features.size, self.task.features.framing)
        looked = ClassifiedPicture(
            name,
            labels,
            tuple(layers),
            notes=(*self._notes(picture), *([counts] if counts else [])),
            attention=build_patch_attention(layers, pixels),
        )
        num_patches, answer = math.prod(self.model.grid), partial(self._answer_without, picture)
        return replace(looked, ablate=partial(ablate_heads, looked.heads, num_patches, answer))

    def _answer_without(self, picture: Picture, ablation: Silenced) -> str:
        """The likeliest label without a head or a layer, as the viewer shows it."""
        return _viewer_text(self.likely_labels(self._logits([picture], ablation))[0])


@dataclass(frozen=True, eq=False, repr=False)
class ClassifiedPicture(Classification[PictureAttention]):
    """The labels of a picture; a look has the attention of each head."""

    layers: tuple[PatchLayerWeights, ...] = ()  # the attention of all patches, for a page

    @property
    def heads(self) -> HeadCounts:
        return {"encoder": {n: len(layer.weights) for n, layer in enumerate(self.layers)}}

    def panels(self, layer: int | None, head: int | None) -> list[tuple[str, Tensor]]:
        """Names and weights (rows, columns): of one head, of all heads of a `layer`, or of the mean
        of all layers; then the rollout up to the layer, or through all layers.
        """
        attention, heads = self.required_attention(), self.heads["encoder"]
        rolled = attention.weights(len(heads) - 1 if layer is None else layer, 0)[1]
        if layer is not None and head is not None and not 0 <= head < heads[layer]:
            raise SettingsError(
                f"head: layer {layer} has {heads[layer]}, counted from 0; got {head}"
            )
        if layer is None or head is not None:
            own = [(attention.words[0], attention.weights(layer, head)[0])]
        else:
            numbers = range(heads[layer])
            own = [(f"head {one}", attention.weights(layer, one)[0]) for one in numbers]
        return [*own, (attention.words[1], rolled)]

    def show(self, *, layer: int | None = None, head: int | None = None) -> RenderableType:
        """For the terminal: the labels, and the patches with most attention."""
        columns = self.required_attention().grid[1]
        table = Table(box=None, pad_edge=False)
        for column in ("looks", "most at row, column", "weight"):
            table.add_column(column, style="" if column == "looks" else "dim")
        for name, seen in self.panels(layer, head):
            row, place = divmod(int(seen.argmax()), columns)
            table.add_row(Text(name), f"{row + 1}, {place + 1}", f"{float(seen.max()):.1%}")
        return Group(self.table(), Text(f"\n{self._describe(layer, head)}", "dim"), table)

    def _describe(self, layer: int | None, head: int | None) -> str:
        """Whose attention `panels` has."""
        attention = self.required_attention()
        rows, columns = attention.grid
        where = "the mean of all layers" if layer is None else f"layer {layer}"
        where = where if head is None else f"{where}, head {head}"
        return f"{attention.words[0]}, over {rows} × {columns} patches, in {where}"

    def plot(
        self, *, layer: int | None = None, head: int | None = None, theme: ThemeName = "light"
    ) -> Figure:
        """A figure of the picture under the attention of each head and of all layers together."""
        panels, note = self.panels(layer, head), self._describe(layer, head)
        return plot_picture_patches(self.required_attention().pixels, panels, note, theme=theme)

    def render(self, model: str, without: Sequence[HeadAblation]) -> str:
        counts = head_counts([*self.layers])  # a page shows each layer's own heads
        notes = tuple(note for note in self.notes if note != counts)
        candidates = (Candidate(_viewer_text(self.labels), 0.0, 0.0),)
        first = int(self.layers[0].class_token)
        document = patch_document(
            {"image": picture_address(self.required_attention().pixels), "first": first},
            [encode_layer(one.weights, None, one.grid) for one in self.layers],
            Answer(Path(self.given).name, candidates, notes),
            self.shown_candidates(),
            model=model,
            without=without,
        )
        if self.before is not None:
            document["before"] = {"text": _viewer_text(self.before.labels), "words": []}
            document["changes"] = [asdict(change) for change in self.changes]
        return render_page(document)

    def look_json(self) -> dict[str, Any]:
        if self.attention is None:
            return {}
        return {
            "before": None if self.before is None else str(self.before),
            "attention": {
                "rows": list(self.attention.words),
                "grid": list(self.attention.grid),
                "weights": self.attention.maps.weights.tolist(),  # (L, H, T, S)
            },
        }


def _viewer_text(labels: Sequence[LikelyLabel]) -> str:
    """The likeliest label with its probability, in the viewer's format."""
    return f"{labels[0].label} {100 * labels[0].probability:.1f}%"
