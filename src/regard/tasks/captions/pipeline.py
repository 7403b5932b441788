"""A saved run as a function: pictures -> captions."""

import os
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import torch
from matplotlib.figure import Figure
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from regard.decoding.settings import DecodingSettings
from regard.errors import PictureError, SettingsError
from regard.images.picture_files import Picture
from regard.inspection.interventions import HeadIntervention, require_heads
from regard.inspection.plots.figure import ThemeName, notebook_html
from regard.inspection.plots.picture_words import plot_picture_words
from regard.inspection.recording.attention_map import Part
from regard.inspection.recording.picture_attention import (
    PictureAttention,
    build_picture_attention,
)
from regard.inspection.recording.recorder import AttentionRecorder, compose_hooks
from regard.inspection.viewer.html_page import notebook_page, render_picture_page
from regard.iterate import chunked
from regard.models.contracts import AnyCaptionModel
from regard.recipes.open_run import Run
from regard.tasks.captions.search import caption_inputs
from regard.tasks.captions.task import CaptionTask
from regard.tasks.families.pictures import (
    PictureLook,
    PictureName,
    picture_document,
    shown_pixels,
    try_to_read,
)
from regard.text.special_tokens import BOS, EOS
from regard.types import Hypothesis, Padded

PICTURES_AT_ONCE = 32

CROSS: tuple[Part, ...] = ("cross",)


class CaptionCandidate(NamedTuple):
    """One of the n best captions."""

    text: str
    score: float


@dataclass(frozen=True, eq=False, repr=False)
class CaptionAnswer:
    """The caption of a picture; a notebook displays its attention, if recorded."""

    picture: str  # its file
    text: str  # empty if the picture could not be read
    candidates: tuple[CaptionCandidate, ...] = ()
    notes: tuple[str, ...] = ()  # what is odd about the picture or the caption
    error: str | None = None  # why there is no caption
    attention: PictureAttention | None = None
    before: "CaptionAnswer | None" = None  # the answer without interventions

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
    def title(self) -> str:
        """Which attention is shown."""
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

    def page(self, model: str) -> str:
        """One interactive offline page with the picture inside."""
        candidates = [(one.text, one.score) for one in self.candidates]
        given = PictureLook(Path(self.picture).name, self.text, candidates, self.notes)
        return render_picture_page(picture_document(given, self.required_attention(), model=model))

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        if self.error is not None:
            return {"picture": self.picture, "error": self.error}
        document: dict[str, Any] = {"picture": self.picture, "caption": self.text}
        document |= {"score": self.score, "notes": list(self.notes)}
        document["candidates"] = [one._asdict() for one in self.candidates]
        if self.attention is not None:
            weights = self.attention.maps.weights.tolist()  # (L, H, T, S)
            document["words"] = list(self.attention.words)
            document["attention"] = {"grid": list(self.attention.grid), "weights": weights}
            document["before"] = None if self.before is None else self.before.text
        return document

    def required_attention(self) -> PictureAttention:
        """The attention; an error if it was not recorded."""
        if self.error is not None:
            raise PictureError(self.error)
        if self.attention is None:
            raise SettingsError("the attention was not recorded: give look=True")
        return self.attention

    def __repr__(self) -> str:
        return f"<Caption of {self.picture}: {self.error or self.text!r}>"

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        if self.attention is None:
            return f"<p>{escape(self.error or self.text)}</p>"
        figure = notebook_html(lambda theme: self.plot(theme=theme), alt=self.text)
        return notebook_page(self.page(""), figure)


class Captioner:
    """A model as a function of pictures."""

    look_part: ClassVar[Part] = "cross"
    look_options: ClassVar[str] = "layer head"

    def __init__(self, run: Run) -> None:
        self.task: CaptionTask = run.task
        self.model: AnyCaptionModel = run.model
        self.settings: DecodingSettings = run.recipe.decoding  # the recipe's search
        self._changes: tuple[HeadIntervention, ...] = ()

    def __repr__(self) -> str:
        return f"<Captioner {self.task.folder}, {self.task.recipe.model.family}>"

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
        changes: Sequence[HeadIntervention] = (),
    ) -> CaptionAnswer:
        """The caption with its attention, under `changes`; a list has one picture."""
        names = [picture] if isinstance(picture, str | os.PathLike) else list(picture)
        if len(names) != 1:
            raise SettingsError(f"give one PICTURE to caption and look into, got {len(names)}")
        plain = self(names[0], settings, look=True)
        if not changes:
            return plain
        layers, heads = plain.required_attention().maps.weights.shape[:2]
        require_heads(changes, layers, heads)
        changed = copy(self)
        changed._changes = tuple(changes)
        return replace(changed(names[0], settings, look=True), before=plain)

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
        first = 0
        for names in chunked(pictures, PICTURES_AT_ONCE):
            read = [try_to_read(name) for name in names]
            good = [(number, one) for number, one in enumerate(read) if isinstance(one, Picture)]
            found = self._search([one for _, one in good], settings or self.settings, first, look)
            answers = dict(zip((number for number, _ in good), found, strict=True))
            for number, (name, one) in enumerate(zip(names, read, strict=True)):
                if isinstance(one, Picture):
                    yield self._answer(os.fspath(name), one, answers[number])
                else:
                    yield CaptionAnswer(os.fspath(name), "", error=str(one))
            first += len(names)

    def _search(
        self, pictures: Sequence[Picture], settings: DecodingSettings, first: int, look: bool
    ) -> list["_Found"]:
        """The hypotheses of each picture; with `look`, the attention of the best one too."""
        if not pictures:
            return []
        features = self.task.features
        inputs = features.to_inputs(features.compute(pictures))
        numbers = range(first, first + len(pictures))
        hook = compose_hooks(*self._changes) if self._changes else None
        found = caption_inputs(self.model, inputs, settings, numbers=numbers, hook=hook)
        if not look:
            return [_Found(hypotheses) for hypotheses in found]
        return [
            _Found(hypotheses, self._record(picture, hypotheses[0].tokens))
            for picture, hypotheses in zip(pictures, found, strict=True)
        ]

    @torch.inference_mode()
    def _record(self, picture: Picture, tokens: Sequence[int]) -> PictureAttention:
        """The attention of a caption's words, under teacher forcing."""
        recorder, features = AttentionRecorder(CROSS), self.task.features
        device = next(self.model.parameters()).device
        inputs = features.to_inputs(features.compute([picture])).to(device)
        ids = torch.tensor([[BOS, *tokens]], device=device)
        hook = compose_hooks(*self._changes, recorder)
        memory = self.model.encode(inputs, hook=hook)
        self.model.decode(Padded(ids, torch.ones_like(ids).bool()), memory, hook=hook)
        pixels = shown_pixels(picture, self.task.recipe.model.encoder.picture_size)
        tokenizer, grid = self.task.tokenizer, self.model.grid
        return build_picture_attention(recorder.weights(), (*tokens, EOS), tokenizer, grid, pixels)

    def _answer(self, name: str, picture: Picture, found: "_Found") -> CaptionAnswer:
        decode = self.task.tokenizer.decode
        candidates = tuple(
            CaptionCandidate(decode(one.tokens), one.score) for one in found.hypotheses
        )
        notes = picture.notes
        if not found.hypotheses[0].finished:
            notes = (*notes, "the caption was cut at the length limit: raise rules.max_length")
        if not candidates[0].text:
            notes = (*notes, "the caption is empty: the model ends before the first word")
        return CaptionAnswer(name, candidates[0].text, candidates, notes, attention=found.attention)


class _Found(NamedTuple):
    """The results of a search for a picture."""

    hypotheses: list[Hypothesis]
    attention: PictureAttention | None = None
