"""A saved run as a function: pictures -> captions."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from matplotlib.figure import Figure
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from regard.decoding.settings import DecodingSettings
from regard.errors import PictureError
from regard.images.picture_files import Picture
from regard.inspection.interventions import HeadChange, HeadCounts
from regard.inspection.plots.figure import ThemeName
from regard.inspection.plots.picture_words import plot_picture_words
from regard.inspection.recording.attention_map import Part
from regard.inspection.recording.picture_attention import (
    PictureAttention,
    build_picture_attention,
)
from regard.inspection.recording.recorder import AttentionRecorder, compose_hooks
from regard.inspection.viewer.html_page import render_picture_page
from regard.inspection.viewer.layer_maps import encode_maps
from regard.models.contracts import AnyCaptionModel
from regard.recipes.open_run import Run
from regard.tasks.captions.search import caption_inputs
from regard.tasks.captions.task import CaptionTask
from regard.tasks.families.pictures import (
    PictureName,
    answer_pictures,
    picture_address,
    read_only_picture,
    shown_pixels,
)
from regard.tasks.families.pipeline import Pipeline, TaskAnswer
from regard.tasks.families.viewer_document import HeadAblation
from regard.text.special_tokens import BOS, EOS
from regard.types import Hypothesis, Padded

PICTURES_AT_ONCE = 32
DOCUMENT_VERSION = 2  # of the viewer's format
DECIMALS = 4

CROSS: tuple[Part, ...] = ("cross",)


class CaptionCandidate(NamedTuple):
    """One of the n best captions."""

    text: str
    score: float


@dataclass(frozen=True, eq=False, repr=False)
class CaptionAnswer(TaskAnswer[PictureAttention]):
    """The caption of a picture; a look has where each word looked."""

    picture: str  # its file
    text: str  # empty if the picture could not be read
    candidates: tuple[CaptionCandidate, ...] = ()

    @property
    def score(self) -> float | None:
        """The score by which the search ranked the caption."""
        return self.candidates[0].score if self.candidates else None

    def plot(
        self, *, layer: int | None = None, head: int | None = None, theme: ThemeName = "light"
    ) -> Figure:
        """A figure of the picture, once for each word."""
        return plot_picture_words(self.required_attention(), layer=layer, head=head, theme=theme)

    @property
    def heads(self) -> HeadCounts:
        layers, heads = self.required_attention().maps.weights.shape[:2]
        return {"cross": dict.fromkeys(range(layers), heads)}

    @property
    def title(self) -> str:
        rows, columns = self.required_attention().grid
        return f"where each word looked most, of {rows} × {columns} regions"

    def show(self, *, layer: int | None = None, head: int | None = None) -> RenderableType:
        """For the terminal: the region that each word attends to most."""
        attention, table = self.required_attention(), Table(box=None, pad_edge=False)
        for column in ("word", "row, column", "weight"):
            table.add_column(column, style="" if column == "word" else "dim")
        for word, weights in zip(attention.words, attention.weights(layer, head), strict=True):
            row, column = divmod(int(weights.argmax()), weights.shape[1])
            share = f"{float(weights.max()):.0%}"
            table.add_row(Text(word), f"{row + 1}, {column + 1}", share)
        return table

    def render(self, model: str, without: Sequence[HeadAblation]) -> str:
        attention = self.required_attention()
        document = {
            "version": DOCUMENT_VERSION,
            "model": model,
            "name": Path(self.picture).name,
            "text": self.text,
            "picture": picture_address(attention.pixels),
            "words": list(attention.words),
            "grid": list(attention.grid),
            **encode_maps(attention.maps, attention.grid),
            "candidates": [
                {"text": one.text, "score": round(one.score, DECIMALS)} for one in self.candidates
            ],
            "notes": list(self.notes),
        }
        return render_picture_page(document)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        if self.error is not None:
            return {"picture": self.picture, "error": self.error}
        document: dict[str, Any] = {"picture": self.picture, "caption": self.text}
        document |= {"score": self.score, "notes": list(self.notes)}
        document["candidates"] = [one._asdict() for one in self.candidates]
        return document | self.look_json()

    def look_json(self) -> dict[str, Any]:
        if self.attention is None:
            return {}
        weights = self.attention.maps.weights.tolist()  # (L, H, T, S)
        return {
            "words": list(self.attention.words),
            "attention": {"grid": list(self.attention.grid), "weights": weights},
            "before": None if self.before is None else self.before.text,
        }

    def __str__(self) -> str:
        return self.text

    def text_html(self) -> str:
        return super().text_html() if self.attention is None else ""  # the picture has it


class Captioner(Pipeline[CaptionTask, AnyCaptionModel]):
    """A model as a function of pictures."""

    look_options = "layer head"

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self.settings: DecodingSettings = run.recipe.decoding  # the recipe's search

    def __call__(
        self, picture: PictureName, settings: DecodingSettings | None = None, *, look: bool = False
    ) -> CaptionAnswer:
        """The caption of a picture; a `PictureError` if it cannot be read."""
        [answer] = self.caption([picture], settings, look=look)
        if answer.error is not None:
            raise PictureError(answer.error)
        return answer

    def look(
        self,
        picture: PictureName | Sequence[str],
        settings: DecodingSettings | None = None,
        *,
        changes: Sequence[HeadChange] = (),
    ) -> CaptionAnswer:
        """The caption with its attention, under `changes`; a list has one picture."""
        read, settings = [read_only_picture(picture)], settings or self.settings
        return self.look_under(
            changes, lambda hooks: self._captions(settings, hooks, read, look=True)[0]
        )

    def caption(
        self,
        pictures: Sequence[PictureName],
        settings: DecodingSettings | None = None,
        *,
        look: bool = False,
    ) -> list[CaptionAnswer]:
        """An answer for each picture, in order; one that cannot be read has an `error`."""
        return list(self.stream(pictures, settings, look=look))

    def stream(
        self,
        pictures: Sequence[PictureName],
        settings: DecodingSettings | None = None,
        *,
        look: bool = False,
    ) -> Iterator[CaptionAnswer]:
        """The same, each as it is made; `PICTURES_AT_ONCE` are in memory at a time."""
        return answer_pictures(
            pictures,
            PICTURES_AT_ONCE,
            partial(self._captions, settings or self.settings, (), look=look),
            lambda name, error: CaptionAnswer(name, "", error=error),
        )

    def _captions(
        self,
        settings: DecodingSettings,
        changes: Sequence[HeadChange],
        named: Sequence[tuple[str, Picture]],
        first: int = 0,
        *,
        look: bool,
    ) -> list[CaptionAnswer]:
        """The captions of pictures with names, which are numbered from `first` on."""
        features = self.task.features
        inputs = features.to_inputs(features.compute([picture for _, picture in named]))
        numbers = range(first, first + len(named))
        hook = compose_hooks(*changes) if changes else None
        found = caption_inputs(self.model, inputs, settings, numbers=numbers, hook=hook)
        return [
            self._answer(name, picture, best, changes, look=look)
            for (name, picture), best in zip(named, found, strict=True)
        ]

    @torch.inference_mode()
    def _record(
        self, picture: Picture, tokens: Sequence[int], changes: Sequence[HeadChange]
    ) -> PictureAttention:
        """The attention of a caption's words, under teacher forcing."""
        recorder, features = AttentionRecorder(CROSS), self.task.features
        inputs = features.to_inputs(features.compute([picture])).to(self.device)
        ids = torch.tensor([[BOS, *tokens]], device=self.device)
        hook = compose_hooks(*changes, recorder)
        memory = self.model.encode(inputs, hook=hook)
        self.model.decode(Padded(ids, torch.ones_like(ids).bool()), memory, hook=hook)
        pixels = shown_pixels(picture, self.task.recipe.model.encoder.picture_size)
        tokenizer, grid = self.task.tokenizer, self.model.grid
        return build_picture_attention(recorder.weights(), (*tokens, EOS), tokenizer, grid, pixels)

    def _answer(
        self,
        name: str,
        picture: Picture,
        found: Sequence[Hypothesis],
        changes: Sequence[HeadChange],
        *,
        look: bool,
    ) -> CaptionAnswer:
        decode = self.task.tokenizer.decode
        candidates = tuple(CaptionCandidate(decode(one.tokens), one.score) for one in found)
        notes = picture.notes
        if not found[0].finished:
            notes = (*notes, "the caption was cut at the length limit: raise rules.max_length")
        if not candidates[0].text:
            notes = (*notes, "the caption is empty: the model ends before the first word")
        attention = self._record(picture, found[0].tokens, changes) if look else None
        return CaptionAnswer(name, candidates[0].text, candidates, notes=notes, attention=attention)
