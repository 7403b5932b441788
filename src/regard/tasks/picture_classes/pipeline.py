"""A saved classifier as a function of pictures."""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from html import escape
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from matplotlib.figure import Figure
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text
from torch import Tensor

from regard.errors import PictureError, SettingsError
from regard.evaluation.classification import Logits
from regard.images.picture_files import ENLARGED, Picture, find_pictures
from regard.inspection.interventions import (
    HeadIntervention,
    list_head_ablations,
    require_heads,
)
from regard.inspection.plots.figure import ThemeName, notebook_html
from regard.inspection.plots.picture_words import plot_picture_patches
from regard.inspection.plots.plain_table import probability_table
from regard.inspection.recording.attention_map import Part
from regard.inspection.recording.patch_attention import (
    PatchLayerWeights,
    build_patch_attention,
    head_counts,
    patch_layers,
)
from regard.inspection.recording.picture_attention import PictureAttention
from regard.inspection.recording.recorder import AttentionRecorder, compose_hooks
from regard.inspection.viewer.html_page import notebook_page, render_page
from regard.inspection.viewer.layer_maps import encode_layer
from regard.iterate import chunked
from regard.models.contracts import PicturePredictor
from regard.tasks.families.answer import Answer, Candidate
from regard.tasks.families.label_pipeline import (
    Classification,
    LabelPipeline,
    LikelyLabel,
)
from regard.tasks.families.pictures import (
    PictureName,
    picture_address,
    shown_pixels,
    try_to_read,
)
from regard.tasks.families.viewer_document import (
    HeadAblation,
    ViewerDocument,
    ablated_answers,
    patch_document,
)
from regard.tasks.picture_classes.task import PictureClassification
from regard.types import AttentionHook

PICTURES_AT_ONCE = 64
SHOWN_LABELS = 10  # in the terminal, and on a page
MAX_ABLATED_PATCHES = 1 << 15  # read again for a page, once without each head


class PictureLabelPipeline(LabelPipeline[PictureClassification, PicturePredictor]):
    """A classifier as a function of pictures, one or many."""

    names_examples: ClassVar[bool] = True
    look_options: ClassVar[str] = "layer head"

    @property
    def look_part(self) -> Part:
        """Where its attention is."""
        return "encoder"

    def __call__(self, picture: PictureName) -> Classification:
        """The labels of a picture; a `PictureError` if it cannot be read."""
        [answer] = self.classify([os.fspath(picture)])
        if answer.error is not None:
            raise PictureError(answer.error)
        return answer

    def find(self, arguments: Sequence[str]) -> list[str]:
        """The named files, blank names included, and all pictures of folders."""
        return list(find_pictures(arguments))

    def stream(self, given: Sequence[str]) -> Iterator[Classification]:
        """An answer for each picture, in order; one that cannot be read has an `error`."""
        for names in chunked(given, PICTURES_AT_ONCE):
            read = [try_to_read(name) for name in names]
            good = [one for one in read if isinstance(one, Picture)]
            logits_of = partial(PictureLabelPipeline._logits, pictures=good)
            found = iter(self.voted_labels(logits_of) if good else ())
            for name, one in zip(names, read, strict=True):
                if isinstance(one, Picture):
                    yield Classification(name, next(found), self._notes(one))
                else:
                    yield Classification(name, (), error=str(one))

    @torch.inference_mode()
    def _logits(self, pictures: Sequence[Picture], hook: AttentionHook | None = None) -> Logits:
        """(N, V)"""
        features, device = self.task.features, next(self.model.parameters()).device
        inputs = features.to_inputs(features.compute(pictures)).to(device)
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
        changes: Sequence[HeadIntervention] = (),
    ) -> "PictureClassificationLook":
        """The labels of a picture with the attention of each head, under `changes`; a list has one
        picture.
        """
        self.require_single()
        names = [pictures] if isinstance(pictures, str | os.PathLike) else list(pictures)
        if len(names) != 1:
            raise SettingsError(f"give one PICTURE to classify and look into, got {len(names)}")
        name, read = os.fspath(names[0]), try_to_read(names[0])
        if isinstance(read, PictureError):
            raise read
        plain = self._look(name, read, ())
        if not changes:
            return plain
        layers, heads = plain.attention.maps.weights.shape[:2]
        require_heads(changes, layers, heads, self.look_part)
        changed = self._look(name, read, changes)
        return replace(changed, changes=tuple(changes), before=plain)

    def _look(
        self, name: str, picture: Picture, changes: Sequence[HeadIntervention]
    ) -> "PictureClassificationLook":
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
        notes = (*self._notes(picture), *([counts] if counts else []))
        pixels = shown_pixels(picture, self.task.features.size, self.task.features.framing)
        attention = build_patch_attention(layers, pixels)
        ablate = partial(self._ablate, picture, [len(one.weights) for one in layers])
        return PictureClassificationLook(name, labels, notes, attention, tuple(layers), ablate)

    def _ablate(self, picture: Picture, heads: Sequence[int]) -> list[HeadAblation]:
        """The likeliest label without each of the `heads` of each layer, and without all heads of
        each layer; none if the picture would be read too many times.
        """
        ablations = list_head_ablations({self.look_part: dict(enumerate(heads))})
        rows, columns = self.model.grid
        if len(ablations) * rows * columns > MAX_ABLATED_PATCHES:
            return []
        return ablated_answers(
            ablations,
            lambda one: _viewer_text(self.likely_labels(self._logits([picture], one))[0]),
        )


@dataclass(frozen=True, eq=False, repr=False)
class PictureClassificationLook:
    """The labels of a picture with the attention of each head, which a notebook displays."""

    picture: str  # its file
    labels: tuple[LikelyLabel, ...]
    notes: tuple[str, ...]
    attention: PictureAttention  # see `build_patch_attention`
    layers: tuple[PatchLayerWeights, ...]  # the attention of all patches, which a page shows
    ablate: Callable[[], list[HeadAblation]] = list
    """The likeliest label without each head, which a page can show."""
    changes: tuple[HeadIntervention, ...] = ()
    before: "PictureClassificationLook | None" = None  # without interventions

    @property
    def heads(self) -> tuple[int, ...]:
        """The number of heads in each layer."""
        return tuple(len(layer.weights) for layer in self.layers)

    @property
    def title(self) -> str:
        """The title of what is shown first."""
        return "the likeliest labels"

    def panels(self, layer: int | None, head: int | None) -> list[tuple[str, Tensor]]:
        """Names and weights (rows, columns): of one head, of all heads of a `layer`, or of the mean
        of all layers; then the rollout up to the layer, or through all layers.
        """
        attention = self.attention
        rolled = attention.weights(len(self.heads) - 1 if layer is None else layer, 0)[1]
        if layer is not None and head is not None and not 0 <= head < self.heads[layer]:
            raise SettingsError(
                f"head: layer {layer} has {self.heads[layer]}, counted from 0; got {head}"
            )
        if layer is None or head is not None:
            own = [(attention.words[0], attention.weights(layer, head)[0])]
        else:
            numbers = range(self.heads[layer])
            own = [(f"head {one}", attention.weights(layer, one)[0]) for one in numbers]
        return [*own, (attention.words[1], rolled)]

    def show(self, *, layer: int | None = None, head: int | None = None) -> RenderableType:
        """For the terminal: the labels, and the patches with most attention."""
        columns = self.attention.grid[1]
        table = Table(box=None, pad_edge=False)
        for column in ("looks", "most at row, column", "weight"):
            table.add_column(column, style="" if column == "looks" else "dim")
        for name, seen in self.panels(layer, head):
            row, place = divmod(int(seen.argmax()), columns)
            table.add_row(Text(name), f"{row + 1}, {place + 1}", f"{float(seen.max()):.1%}")
        return Group(
            probability_table("label", self.labels[:SHOWN_LABELS]),
            Text(f"\n{self._describe(layer, head)}", "dim"),
            table,
        )

    def _describe(self, layer: int | None, head: int | None) -> str:
        """Whose attention `panels` has."""
        rows, columns = self.attention.grid
        where = "the mean of all layers" if layer is None else f"layer {layer}"
        where = where if head is None else f"{where}, head {head}"
        return f"{self.attention.words[0]}, over {rows} × {columns} patches, in {where}"

    def plot(
        self, *, layer: int | None = None, head: int | None = None, theme: ThemeName = "light"
    ) -> Figure:
        """A figure of the picture under the attention of each head and of all layers together."""
        panels, note = self.panels(layer, head), self._describe(layer, head)
        return plot_picture_patches(self.attention.pixels, panels, note, theme=theme)

    def page(self, model: str) -> str:
        """One interactive offline page with the picture, and every layer, head and patch."""
        return render_page(self._document(model, self.ablate() if self.before is None else []))

    def _document(self, model: str, ablations: Sequence[HeadAblation]) -> ViewerDocument:
        counts = head_counts([*self.layers])  # a page shows each layer's own heads
        notes = tuple(note for note in self.notes if note != counts)
        candidates = (Candidate(_viewer_text(self.labels), 0.0, 0.0),)
        first = int(self.layers[0].class_token)
        document = patch_document(
            {"image": picture_address(self.attention.pixels), "first": first},
            [encode_layer(one.weights, None, one.grid) for one in self.layers],
            Answer(Path(self.picture).name, candidates, notes),
            [{"text": one.label, "score": one.probability} for one in self.labels[:SHOWN_LABELS]],
            model=model,
            without=ablations,
        )
        if self.before is not None:
            document["before"] = {"text": _viewer_text(self.before.labels), "words": []}
            document["changes"] = [asdict(change) for change in self.changes]
        return document

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "given": self.picture,
            "labels": {one.label: one.probability for one in self.labels},
            "notes": list(self.notes),
            "before": None if self.before is None else str(self.before),
            "attention": {
                "rows": list(self.attention.words),
                "grid": list(self.attention.grid),
                "weights": self.attention.maps.weights.tolist(),  # (L, H, T, S)
            },
        }

    def __repr__(self) -> str:
        return f"<PictureClassificationLook {self.picture}: {self}>"

    def __str__(self) -> str:
        return str(self.labels[0])

    def _repr_html_(self) -> str:
        figure = notebook_html(lambda theme: self.plot(theme=theme), alt=str(self))
        figure = notebook_page(render_page(self._document("", [])), figure)
        return f"<p>{escape(self.picture)} → <b>{escape(str(self))}</b></p>{figure}"


def _viewer_text(labels: Sequence[LikelyLabel]) -> str:
    """The likeliest label with its probability, in the viewer's format."""
    return f"{labels[0].label} {100 * labels[0].probability:.1f}%"
