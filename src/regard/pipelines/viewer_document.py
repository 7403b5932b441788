"""A look as plain data: what the viewer draws, in a file of its own or from a server."""

import base64
from collections.abc import Sequence
from typing import Any, Protocol

from torch import Tensor
from typing_extensions import TypedDict  # pydantic, which reads these, takes no other before 3.12

from regard.alignment.extraction import align
from regard.decoding.tracing.search_tree import NodeState
from regard.engines.native.attention_capture import AttentionCapture
from regard.inspection.attention_sinks import find_sinks
from regard.inspection.interventions import InterventionRequest, requests_to_json
from regard.inspection.recording.attention_map import AttentionMaps, Axis, Part
from regard.text.special_tokens import BOS, SPECIAL_PIECES
from regard.text.word_units import split_units

DOCUMENT_VERSION = 1
"""Of the document's form: a viewer draws the one it knows."""
WEIGHT_SCALE = 255
"""The byte that stands for a weight of 1."""
DECIMALS = 4
"""Behind the point, of what is shown as a number."""


class ViewerSentence(TypedDict):
    """A sentence, in words and in the pieces that the model reads or answers."""

    text: str
    pieces: list[str]
    words: list[str]
    word_of: list[int | None]


class ViewerMaps(TypedDict):
    """All maps of one part: bytes in base64, layer by layer, head by head, row by row."""

    shape: list[int]
    weights: str


class ViewerAlignment(TypedDict):
    """Which source word belongs to which target word, and what said so."""

    links: list[tuple[int, int]]
    by: str
    """How they were read off, in all detail."""
    layer: int | None
    head: int | None
    """Whose attention said so; none: the average over all."""


class ViewerSink(TypedDict):
    """A column of pieces on which a head rests whatever the row."""

    part: Part
    layer: int
    head: int
    column: int
    share: float


class ViewerCandidate(TypedDict):
    """One of the n best translations."""

    text: str
    score: float


class ViewerTree(TypedDict):
    """The hypotheses of a search: each node is [parent, piece, log-probability, state]."""

    nodes: list[tuple[int | None, str, float, NodeState]]
    answers: list[int]


class ViewerUnchanged(TypedDict):
    """A translation and its words, by whose numbers changes name them."""

    text: str
    words: list[str]


class HeadAblation(TypedDict):
    """What the translation becomes when a head, or all heads of a layer, see nothing."""

    part: Part
    layer: int
    head: int | None
    text: str


class ViewerDocument(TypedDict):
    """All that the viewer needs of one sentence."""

    version: int
    model: str
    source: ViewerSentence
    target: ViewerSentence
    given: list[str]
    parts: dict[Part, ViewerMaps]
    alignment: ViewerAlignment | None
    sinks: list[ViewerSink]
    candidates: list[ViewerCandidate]
    notes: list[str]
    tree: ViewerTree | None
    changes: list[dict[str, Any]]
    before: ViewerUnchanged | None
    without: list[HeadAblation]


class CandidateLike(Protocol):
    """A translation and what the search ranked it by."""

    @property
    def text(self) -> str: ...
    @property
    def score(self) -> float: ...


class AnswerLike(Protocol):
    """What an answer has: this room does not know the translator that gave it."""

    @property
    def source(self) -> str: ...
    @property
    def candidates(self) -> Sequence[CandidateLike]: ...
    @property
    def notes(self) -> Sequence[str]: ...
    @property
    def attention(self) -> AttentionCapture | None: ...
    @property
    def changes(self) -> Sequence[InterventionRequest]: ...
    @property
    def before(self) -> "AnswerLike | None": ...


def viewer_document(
    answer: AnswerLike, *, model: str = "", without: Sequence[HeadAblation] = ()
) -> ViewerDocument:
    """The document of one answer, ready for JSON.

    `without` is for a viewer that cannot ask for a translation under other changes. An answer that
    was not looked at, or by a model that does not attend, has no parts.
    """
    capture = answer.attention or AttentionCapture({})
    source, target = _source_axis(capture), _target_axis(capture)
    return {
        "version": DOCUMENT_VERSION,
        "model": model,
        "source": _sentence(answer.source, source),
        "target": _sentence(answer.candidates[0].text, target),
        "given": [SPECIAL_PIECES[BOS], *target.pieces[:-1]] if target else [],
        "parts": {part: _maps(attention) for part, attention in capture.parts.items()},
        "alignment": _links(capture),
        "sinks": [sink for attention in capture.parts.values() for sink in _sinks(attention)],
        "candidates": [{"text": one.text, "score": one.score} for one in answer.candidates],
        "notes": list(answer.notes),
        "tree": _tree(capture),
        "changes": requests_to_json(answer.changes),
        "before": None if answer.before is None else _unchanged(answer.before),
        "without": list(without),
    }


def _unchanged(answer: AnswerLike) -> ViewerUnchanged:
    sentence = _sentence(
        answer.candidates[0].text, _target_axis(answer.attention or AttentionCapture({}))
    )
    return {"text": sentence["text"], "words": sentence["words"]}


def _source_axis(capture: AttentionCapture) -> Axis | None:
    if "cross" in capture.parts:
        return capture.parts["cross"].columns
    return capture.parts["encoder"].columns if "encoder" in capture.parts else None


def _target_axis(capture: AttentionCapture) -> Axis | None:
    """The pieces that were answered, which name the rows."""
    return next(
        (capture.parts[part].rows for part in ("cross", "decoder") if part in capture.parts), None
    )


def _sentence(text: str, axis: Axis | None) -> ViewerSentence:
    """A sentence that no attention names has words and no pieces."""
    if axis is None:
        return {"text": text, "pieces": [], "words": split_units(text), "word_of": []}
    return {
        "text": text,
        "pieces": list(axis.pieces),
        "words": list(axis.words),
        "word_of": list(axis.word_of),
    }


def _maps(attention: AttentionMaps) -> ViewerMaps:
    return {"shape": list(attention.layers.shape), "weights": _quantize(attention.layers)}


def _quantize(weights: Tensor) -> str:
    """Weights to the nearest 1/255, in base64."""
    levels = (weights.nan_to_num().clamp(0, 1) * WEIGHT_SCALE).round().byte().contiguous()
    return base64.b64encode(levels.numpy().tobytes()).decode()


def _links(capture: AttentionCapture) -> ViewerAlignment | None:
    if "cross" not in capture.parts:
        return None
    links = align(
        capture.parts["cross"], capture.alignment_settings
    )  # between the words that the document has
    alignment_settings = capture.alignment_settings
    return {
        "links": sorted(links),
        "by": str(alignment_settings),
        "layer": alignment_settings.layer,
        "head": alignment_settings.head,
    }


def _sinks(attention: AttentionMaps) -> list[ViewerSink]:
    return [
        {
            "part": sink.part,
            "layer": sink.layer,
            "head": sink.head,
            "column": sink.column,
            "share": round(sink.share, DECIMALS),
        }
        for sink in find_sinks(attention)
    ]


def _tree(capture: AttentionCapture) -> ViewerTree | None:
    if capture.tree is None:
        return None
    named = zip(capture.tree.nodes, capture.tree_pieces, strict=True)
    return {
        "nodes": [
            (node.parent, piece, round(node.log_probability, DECIMALS), node.state)
            for node, piece in named
        ],
        "answers": list(capture.tree.answers),
    }
