"""A saved classifier as a function of texts."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from html import escape
from typing import Any, ClassVar

import numpy as np
import torch
from rich.console import RenderableType

from regard.engines.native.attention_capture import AttentionCapture
from regard.errors import SettingsError
from regard.evaluation.classification import Logits
from regard.inspection.interventions import (
    Flattened,
    Silenced,
    list_head_ablations,
    require_heads,
)
from regard.inspection.plots.plain_table import probability_table
from regard.inspection.recording.attention_map import (
    AttentionMaps,
    Axis,
    AxisSegment,
    Part,
    build_axis,
)
from regard.inspection.recording.recorder import AttentionRecorder, compose_hooks
from regard.iterate import chunked
from regard.models.contracts import AnyPredictor
from regard.settings import counted
from regard.tasks.families.answer import Answer, Candidate
from regard.tasks.families.classification import classify_examples
from regard.tasks.families.label_pipeline import (
    Classification,
    LabelPipeline,
    LikelyLabel,
)
from regard.tasks.families.text_look import BETWEEN, TextLook
from regard.tasks.families.viewer_document import HeadAblation, ablated_answers
from regard.tasks.text_classes.task import EncodedText, TextClassification
from regard.text.preprocess import require_texts
from regard.text.special_tokens import (
    EOS,
    SPACE,
    SPECIAL_PIECES,
    UNK,
    UNK_SURFACE,
    legible_piece,
)
from regard.types import AttentionHook

TEXTS_AT_ONCE = 1024
MAX_ABLATED_TOKENS = 1 << 15  # read again for a page, once without each head
SHOWN_LABELS = 10  # in the terminal, and on a page
SHOWN_NGRAMS = 5


class TextLabelPipeline(LabelPipeline[TextClassification, AnyPredictor]):
    """A classifier as a function of texts, one or many at once; a pair is `A ||| B`."""

    look_options: ClassVar[str] = "layer head every pieces kind"

    @property
    def look_part(self) -> Part:
        """Where the encoder's attention is."""
        return self.task.recipe.model.attention_part

    def __call__(self, text: str) -> Classification:
        """The labels of one text; see `classify`."""
        return self.classify([text])[0]

    def find(self, arguments: Sequence[str]) -> list[str]:
        return list(arguments)

    def stream(self, given: Sequence[str]) -> Iterator[Classification]:
        """An answer for each text, in order; an empty text gets one too, with a note."""
        require_texts("texts", given)
        for some in chunked(given, TEXTS_AT_ONCE):
            parts = [self._parts(text) for text in some]
            encoded = self.task.encode(parts)
            found = self.voted_labels(partial(self._logits_of, parts, encoded))
            for text, one, labels in zip(some, encoded, found, strict=True):
                yield Classification(text, labels, self._notes(text, one))

    def _logits_of(
        self, parts: Sequence[tuple[str, ...]], own: list[EncodedText], run: "TextLabelPipeline"
    ) -> Logits:
        """The logits (N, V) of a run of the ensemble for texts; `own`: as encoded by this run."""
        encoded = own if run is self else run.task.encode(parts)
        lengths = np.array([len(one.ids) for one in encoded])
        return classify_examples(run.model, run.task.rows_of(encoded), lengths)

    @property
    def text_counts(self) -> tuple[int, ...]:
        """How many texts an example may have, as all runs of the ensemble support."""
        of_others = [one.task.text_counts for one in self.others]
        own = self.task.text_counts
        return tuple(count for count in own if all(count in some for some in of_others))

    def _parts(self, text: str) -> tuple[str, ...]:
        """The text, or the two texts of a pair, in single lines, as examples were read; an imported
        run has read none, and takes the spaces of a text as `transformers` does.
        """
        counts = self.text_counts
        parts = text.split(BETWEEN) if 2 in counts else [text]
        if len(parts) not in counts:
            raise SettingsError(
                f"{self.task.folder} classifies pairs: expected two texts with {BETWEEN} between "
                f"them, got {len(parts)} in {text[:40]!r}"
            )
        if self.task.recipe.is_imported:
            return tuple(parts) if len(parts) == 1 else tuple(part.strip() for part in parts)
        return tuple(" ".join(part.split()) for part in parts)

    def _notes(self, text: str, encoded: EncodedText) -> tuple[str, ...]:
        notes, count = [], len(encoded.ids) - encoded.ids.count(EOS)
        spaces = self.task.tokenizer.pieces(encoded.ids).count(SPACE)  # before unknown words
        if not text.strip():
            notes.append("the text is empty: the answer means nothing")
        if encoded.unknown:
            known = counted(count - spaces, "token")
            notes.append(f"unknown to the model: {encoded.unknown:,} of {known}")
        if encoded.left_out:
            notes.append(
                f"the model reads {counted(count, 'token')} and leaves out {encoded.left_out:,}"
            )
        return tuple(notes)

    # -- looking --------------------------------------------------------------------------------

    def look(
        self, texts: str | Sequence[str], *, changes: Sequence[Silenced | Flattened] = ()
    ) -> "TextClassificationLook":
        """The labels of a text with its attention, under `changes`; several texts are joined by
        spaces, or are the two of a pair.
        """
        self.require_single()
        between = f" {BETWEEN} " if self.text_counts == (2,) else " "
        text = texts if isinstance(texts, str) else between.join(texts)
        if not text.strip():
            raise SettingsError("give a TEXT to classify and look into")
        plain = self._look(text, ())
        if not changes:
            return plain
        maps = plain.required_attention().parts[self.look_part]
        layers, heads = maps.weights.shape[:2]
        require_heads(changes, layers, heads, self.look_part)
        return replace(self._look(text, changes), before=plain)

    def _look(self, text: str, changes: Sequence[Silenced | Flattened]) -> "TextClassificationLook":
        [encoded] = self.task.encode([self._parts(text)])
        recorder = AttentionRecorder(scores=True)
        logits = self._logits(encoded, compose_hooks(*changes, recorder))
        before = self._logits(encoded, None) if changes else None
        [labels] = self.likely_labels(logits, before)
        maps = self._maps(text, encoded, recorder)
        return TextClassificationLook(
            self.look_part,
            text,
            labels,
            (*self._notes(text, encoded), *self._ngram_notes(encoded, labels[0].label)),
            AttentionCapture({self.look_part: maps}),
            tuple(changes),
            partial(self._ablate, text, encoded, maps.weights.shape[:2]),
        )

    def _ngram_notes(self, encoded: EncodedText, answer: str) -> tuple[str, ...]:
        """How the n-grams of a text contribute to the answer, if the model counts them: in nats of
        the calibrated probabilities.
        """
        votes, temperature = self.task.ngram_votes(self.model, encoded), self.task.temperature
        if not votes:
            return ()
        row = self.task.labels.index(answer)
        others = [number for number in range(len(self.task.labels)) if number != row]
        leads = {
            ids: float(vote[row] - vote[others].mean()) / temperature for ids, vote in votes.items()
        }
        legible = [ids for ids in leads if min(ids) >= len(SPECIAL_PIECES)]
        loudest = sorted(legible, key=lambda ids: -abs(leads[ids]))[:SHOWN_NGRAMS]
        told = (f"“{self._legible(ids)}” {leads[ids]:+.2f}" for ids in loudest)
        total = f"n-grams add {sum(leads.values()):+.2f} nats to the evidence for {answer}"
        return (f"{total}: {', '.join(told)}, …" if loudest else total,)

    def _legible(self, ids: Sequence[int]) -> str:
        return " ".join(map(legible_piece, self.task.tokenizer.pieces(ids)))

    @torch.inference_mode()
    def _logits(self, encoded: EncodedText, hook: AttentionHook | None) -> Logits:
        """The logits of one text: (1, V)."""
        device = next(self.model.parameters()).device
        inputs = self.task.to_inputs([encoded]).to(device)
        return np.asarray(self.model(inputs, hook=hook).double().cpu().numpy())

    def _maps(self, text: str, encoded: EncodedText, recorder: AttentionRecorder) -> AttentionMaps:
        maps = recorder.self_attention(self.look_part, self._axis(text, encoded))
        if maps is None:
            family = self.task.recipe.model.known_encoder.family
            raise SettingsError(
                f"{self.task.folder}: its encoder, {family}, has no attention to look at; train "
                "one that has, such as trec6"
            )
        return maps

    def _axis(self, text: str, encoded: EncodedText) -> Axis:
        """The tokens that the model read, unknown ones as they were written."""
        unknown = []
        for part in self._parts(text):
            [ids], surfaces = self.task.tokenizer.encode([part]), self.task.tokenizer.surfaces(part)
            words = zip(ids, surfaces, strict=True)
            unknown += [surface.strip() or UNK_SURFACE for id, surface in words if id == UNK]
        ids = [self.task.recipe.model.text_start, *encoded.ids]
        axis = build_axis(ids, self.task.tokenizer, unknown[: ids.count(UNK)])
        if not encoded.is_pair:
            return axis
        middle = encoded.first + 1
        pair = AxisSegment("first", 0, middle), AxisSegment("second", middle, len(ids))
        return axis._replace(segments=pair)

    def _ablate(self, text: str, encoded: EncodedText, heads: Sequence[int]) -> list[HeadAblation]:
        """The likeliest label without each of the `heads` (L, H), and without the heads of each
        layer; none if too many tokens would be read.
        """
        part = self.look_part
        ablations = list_head_ablations({part: dict.fromkeys(range(heads[0]), heads[1])})
        if len(ablations) * len(encoded.ids) > MAX_ABLATED_TOKENS:
            return []

        def answer_without(one: Silenced) -> str:
            [labels] = self.likely_labels(self._logits(encoded, one))
            return answer_text(part, text, labels[0].label)

        return ablated_answers(ablations, answer_without)


@dataclass(frozen=True, eq=False, repr=False)
class TextClassificationLook(TextLook):
    """The labels of a text with its attention, which a notebook displays."""

    kind = "class"

    part: Part
    text: str
    labels: tuple[LikelyLabel, ...]
    notes: tuple[str, ...]
    attention: AttentionCapture
    changes: tuple[Silenced | Flattened, ...] = ()
    ablate: Callable[[], list[HeadAblation]] = list
    """The likeliest label without each head, which a page can show."""
    before: "TextClassificationLook | None" = None  # without interventions

    @property
    def title(self) -> str:
        """The title of what is shown first."""
        return "the likeliest labels"

    def answers(self) -> list[RenderableType]:
        return [probability_table("label", self.labels[:SHOWN_LABELS])]

    def shown_candidates(self) -> list[dict[str, Any]]:
        return [{"text": one.label, "score": one.probability} for one in self.labels[:SHOWN_LABELS]]

    def to_json(self) -> dict[str, Any]:
        """Plain values; the weights in the viewer's format."""
        return {
            "given": self.text,
            "labels": {one.label: one.probability for one in self.labels},
            "notes": list(self.notes),
            **self.look_json(),
        }

    def shown_answer(self) -> Answer:
        """The text with its likeliest label, and the attention."""
        read = "" if self.part == "decoder" else self.text
        answer = answer_text(self.part, self.text, self.labels[0].label)
        before = None if self.before is None else self.before.shown_answer()
        candidates = (Candidate(answer, 0.0, 0.0),)
        return Answer(
            read, candidates, self.notes, self.attention, changes=self.changes, before=before
        )

    def __repr__(self) -> str:
        return f"<TextClassificationLook {self.text!r}: {self}>"

    def __str__(self) -> str:
        return str(self.labels[0])

    def text_html(self) -> str:
        return f"<p>{escape(self.text)} → <b>{escape(str(self))}</b></p>"


def answer_text(part: Part, text: str, label: str) -> str:
    """The answer in the viewer: a label, after the text if a decoder read the text."""
    return f"{text} → {label}" if part == "decoder" else label
