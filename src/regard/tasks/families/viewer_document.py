"""An answer with its attention as plain data for the viewer, in a file or from a server."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from typing import Any, Literal

from typing_extensions import TypedDict  # pydantic, which reads these, takes no other before 3.12

from regard.alignment.extraction import align
from regard.decoding.tracing.search_tree import NodeState
from regard.engines.native.attention_capture import AttentionCapture
from regard.inspection.attention_sinks import find_sinks
from regard.inspection.interventions import Silenced
from regard.inspection.recording.attention_map import Axis, Part
from regard.inspection.viewer.layer_maps import ViewerLayer, ViewerMaps, encode_maps
from regard.tasks.families.answer import Answer
from regard.text.special_tokens import BOS, SPECIAL_PIECES
from regard.text.word_units import split_units

DOCUMENT_VERSION = 2  # the format's version, which the viewer checks
DECIMALS = 4


class ViewerSegment(TypedDict):
    """One of several sentences that were read as one: its first piece, and that after its last."""

    name: str
    start: int
    end: int


class ViewerPicture(TypedDict):
    """A picture that was read in patches."""

    image: str
    """A `data:` address."""
    first: int
    """How many pieces precede the patches, such as a class token."""


class ViewerSentence(TypedDict):
    """A sentence, in words and in the pieces that the model reads or predicts; or the patches of a
    picture.
    """

    text: str
    pieces: list[str]
    words: list[str]
    word_of: list[int | None]
    segments: list[ViewerSegment]
    """Empty: it is one sentence."""
    picture: ViewerPicture | None


class ViewerAlignment(TypedDict):
    """Links between source and target words, and the attention that they were extracted from."""

    links: list[tuple[int, int]]
    by: str
    """The alignment settings, in words."""
    layer: int | None
    head: int | None
    """None: the average over all."""


class ViewerSink(TypedDict):
    """A column of pieces that is an attention sink of a head."""

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
    """The translation without interventions; they refer to its words by index."""

    text: str
    words: list[str]


class HeadAblation(TypedDict):
    """The answer without a head, or without all heads of a layer."""

    part: Part
    layer: int
    head: int | None
    text: str


def ablated_answers(
    ablations: Iterable[Silenced], answer_without: Callable[[Silenced], str]
) -> list[HeadAblation]:
    """The text of the answer without each of some heads or layers."""
    return [
        {"part": one.part, "layer": one.layer, "head": one.head, "text": answer_without(one)}
        for one in ablations
    ]


DocumentKind = Literal["translation", "text", "masked", "class"]
"""What was done: a sentence translated; a text read and perhaps continued; a text with masked words
read; or a text or picture classified."""


class ViewerDocument(TypedDict):
    """Everything that the viewer shows of one sentence."""

    version: int
    model: str
    kind: DocumentKind
    source: ViewerSentence
    target: ViewerSentence
    given: list[str]
    """The pieces that were the decoder's input."""
    given_word_of: list[int | None]
    """The word of the target that each of them belongs to."""
    parts: dict[Part, ViewerMaps]
    alignment: ViewerAlignment | None
    sinks: list[ViewerSink]
    candidates: list[ViewerCandidate]
    notes: list[str]
    tree: ViewerTree | None
    changes: list[dict[str, Any]]
    """The interventions, as JSON."""
    before: ViewerUnchanged | None
    without: list[HeadAblation]


def viewer_document(
    answer: Answer, *, model: str = "", without: Sequence[HeadAblation] = ()
) -> ViewerDocument:
    """The document of one answer, with head ablations for a viewer without a server."""
    capture, (source, target) = answer.attention or AttentionCapture({}), _axes(answer)
    before = answer.before
    given = _given(capture, target)
    return {
        "version": DOCUMENT_VERSION,
        "model": model,
        "kind": "translation",
        "source": _sentence(answer.source, source),
        "target": _sentence(answer.text, target),
        "given": list(given.pieces),
        "given_word_of": list(given.word_of),
        "parts": {part: encode_maps(attention) for part, attention in capture.parts.items()},
        "alignment": _alignment(capture),
        "sinks": [
            {
                "part": sink.part,
                "layer": sink.layer,
                "head": sink.head,
                "column": sink.column,
                "share": round(sink.share, DECIMALS),
            }
            for attention in capture.parts.values()
            for sink in find_sinks(attention)
        ],
        "candidates": [{"text": best.text, "score": best.score} for best in answer.candidates],
        "notes": list(answer.notes),
        "tree": _tree(capture),
        "changes": [asdict(change) for change in answer.changes],
        "before": None
        if before is None
        else {"text": before.text, "words": _sentence(before.text, _axes(before)[1])["words"]},
        "without": list(without),
    }


def patch_document(
    read: ViewerPicture,
    layers: Sequence[ViewerLayer],
    answer: Answer,
    labels: Sequence[ViewerCandidate],
    *,
    model: str = "",
    without: Sequence[HeadAblation] = (),
) -> ViewerDocument:
    """The document of a picture that was read in patches, with the patch grid of each layer;
    `answer` has the name of its file and its likeliest label.
    """
    document = viewer_document(answer, model=model, without=without)
    document["source"]["picture"] = read
    return {
        **document,
        "kind": "class",
        "parts": {"encoder": {"layers": list(layers)}},
        "candidates": list(labels),
    }


def _axes(answer: Answer) -> tuple[Axis | None, Axis | None]:
    """The axes of source and target in the recorded attention; None if it has none."""
    maps = answer.attention.parts if answer.attention else {}
    return (
        next((maps[part].columns for part in ("cross", "encoder") if part in maps), None),
        next((maps[part].rows for part in ("cross", "decoder") if part in maps), None),
    )


def _given(capture: AttentionCapture, target: Axis | None) -> Axis:
    """The decoder's input: the columns of its attention, or BOS and all of the target but EOS."""
    if "decoder" in capture.parts:
        return capture.parts["decoder"].columns
    if target is None:
        return Axis((), (), ())
    pieces, word_of = target.pieces[:-1], target.word_of[:-1]
    return Axis((SPECIAL_PIECES[BOS], *pieces), target.words, (None, *word_of))


def _sentence(text: str, axis: Axis | None) -> ViewerSentence:
    """A sentence for the viewer; without recorded attention it has words and no pieces."""
    axis = axis or Axis((), tuple(split_units(text)), ())
    return {
        "text": text,
        "pieces": list(axis.pieces),
        "words": list(axis.words),
        "word_of": list(axis.word_of),
        "segments": [{"name": s.name, "start": s.start, "end": s.end} for s in axis.segments],
        "picture": None,
    }


def _alignment(capture: AttentionCapture) -> ViewerAlignment | None:
    if "cross" not in capture.parts:
        return None
    settings = capture.alignment_settings
    return {
        "links": sorted(align(capture.parts["cross"], settings)),
        "by": str(settings),
        "layer": settings.layer,
        "head": settings.head,
    }


def _tree(capture: AttentionCapture) -> ViewerTree | None:
    if capture.tree is None:
        return None
    nodes = [
        (node.parent, piece, round(node.log_probability, DECIMALS), node.state)
        for node, piece in zip(capture.tree.nodes, capture.tree_pieces, strict=True)
    ]
    return {"nodes": nodes, "answers": list(capture.tree.answers)}
