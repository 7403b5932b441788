"""A look as plain data: what the viewer draws, in a file of its own or from a server."""

import base64
from collections.abc import Sequence
from typing import Any, Protocol

from torch import Tensor
from typing_extensions import TypedDict  # pydantic, which reads these, takes no other before 3.12

from regard.decoding.tree import Fate
from regard.inspection.alignment import align
from regard.inspection.changes import Wish, write_changes
from regard.inspection.look import Look
from regard.inspection.record import Attention, Axis, Part
from regard.inspection.sinks import find_sinks
from regard.text.special import BOS, SPECIAL_PIECES
from regard.text.word_units import split_units

VERSION = 1
"""Of the document's form: a viewer draws the one it knows."""
ONE = 255
"""The byte that stands for a weight of 1."""
DIGITS = 4
"""Behind the point, of what is shown as a number."""


class Sentence(TypedDict):
    """A sentence, in words and in the pieces that the model reads or answers."""

    text: str
    pieces: list[str]
    words: list[str]
    word_of: list[int | None]


class Maps(TypedDict):
    """All maps of one part: bytes in base64, layer by layer, head by head, row by row."""

    shape: list[int]
    weights: str


class Links(TypedDict):
    """Which source word belongs to which target word, and what said so."""

    links: list[tuple[int, int]]
    by: str
    """How they were read off, in all detail."""
    layer: int | None
    head: int | None
    """Whose attention said so; none: the average over all."""


class SinkFound(TypedDict):
    """A column of pieces on which a head rests whatever the row."""

    part: Part
    layer: int
    head: int
    column: int
    share: float


class Ranked(TypedDict):
    """One of the n best translations."""

    text: str
    score: float


class Tree(TypedDict):
    """The hypotheses of a search: each node is [parent, piece, log-probability, state]."""

    nodes: list[tuple[int | None, str, float, Fate]]
    answers: list[int]


class Before(TypedDict):
    """A translation and its words, by whose numbers changes name them."""

    text: str
    words: list[str]


class Without(TypedDict):
    """What the translation becomes when a head, or all heads of a layer, see nothing."""

    part: Part
    layer: int
    head: int | None
    text: str


class LookDocument(TypedDict):
    """All that the viewer needs of one sentence."""

    version: int
    model: str
    source: Sentence
    target: Sentence
    given: list[str]
    parts: dict[Part, Maps]
    alignment: Links | None
    sinks: list[SinkFound]
    candidates: list[Ranked]
    notes: list[str]
    tree: Tree | None
    changes: list[dict[str, Any]]
    before: Before | None
    without: list[Without]


class Scored(Protocol):
    """A translation and what the search ranked it by."""

    @property
    def text(self) -> str: ...
    @property
    def score(self) -> float: ...


class Answered(Protocol):
    """What an answer has: this room does not know the translator that gave it."""

    @property
    def source(self) -> str: ...
    @property
    def candidates(self) -> Sequence[Scored]: ...
    @property
    def notes(self) -> Sequence[str]: ...
    @property
    def attention(self) -> Look | None: ...
    @property
    def changes(self) -> Sequence[Wish]: ...
    @property
    def before(self) -> "Answered | None": ...


def look_document(
    answer: Answered, *, model: str = "", without: Sequence[Without] = ()
) -> LookDocument:
    """The document of one answer, ready for JSON.

    `without` is for a viewer that cannot ask for a translation under other changes. An answer that
    was not looked at, or by a model that does not attend, has no parts.
    """
    look = answer.attention or Look({})
    source, target = _source_axis(look), _target_axis(look)
    return {
        "version": VERSION,
        "model": model,
        "source": _sentence(answer.source, source),
        "target": _sentence(answer.candidates[0].text, target),
        "given": [SPECIAL_PIECES[BOS], *target.pieces[:-1]] if target else [],
        "parts": {part: _maps(attention) for part, attention in look.parts.items()},
        "alignment": _links(look),
        "sinks": [sink for attention in look.parts.values() for sink in _sinks(attention)],
        "candidates": [{"text": one.text, "score": one.score} for one in answer.candidates],
        "notes": list(answer.notes),
        "tree": _tree(look),
        "changes": write_changes(answer.changes),
        "before": None if answer.before is None else _before(answer.before),
        "without": list(without),
    }


def _before(answer: Answered) -> Before:
    sentence = _sentence(answer.candidates[0].text, _target_axis(answer.attention or Look({})))
    return {"text": sentence["text"], "words": sentence["words"]}


def _source_axis(look: Look) -> Axis | None:
    if "cross" in look.parts:
        return look.parts["cross"].columns
    return look.parts["encoder"].columns if "encoder" in look.parts else None


def _target_axis(look: Look) -> Axis | None:
    """The pieces that were answered, which name the rows."""
    return next(
        (look.parts[part].rows for part in ("cross", "decoder") if part in look.parts), None
    )


def _sentence(text: str, axis: Axis | None) -> Sentence:
    """A sentence that no attention names has words and no pieces."""
    if axis is None:
        return {"text": text, "pieces": [], "words": split_units(text), "word_of": []}
    return {
        "text": text,
        "pieces": list(axis.pieces),
        "words": list(axis.words),
        "word_of": list(axis.word_of),
    }


def _maps(attention: Attention) -> Maps:
    return {"shape": list(attention.layers.shape), "weights": _pack(attention.layers)}


def _pack(weights: Tensor) -> str:
    """Weights to the nearest 1/255, in base64."""
    levels = (weights.nan_to_num().clamp(0, 1) * ONE).round().byte().contiguous()
    return base64.b64encode(levels.numpy().tobytes()).decode()


def _links(look: Look) -> Links | None:
    if "cross" not in look.parts:
        return None
    links = align(look.parts["cross"], look.reading)  # between the words that the document has
    reading = look.reading
    return {
        "links": sorted(links),
        "by": str(reading),
        "layer": reading.layer,
        "head": reading.head,
    }


def _sinks(attention: Attention) -> list[SinkFound]:
    return [
        {
            "part": sink.part,
            "layer": sink.layer,
            "head": sink.head,
            "column": sink.column,
            "share": round(sink.share, DIGITS),
        }
        for sink in find_sinks(attention)
    ]


def _tree(look: Look) -> Tree | None:
    if look.tree is None:
        return None
    named = zip(look.tree.nodes, look.tree_pieces, strict=True)
    return {
        "nodes": [
            (node.parent, piece, round(node.log_probability, DIGITS), node.state)
            for node, piece in named
        ],
        "answers": list(look.tree.answers),
    }
