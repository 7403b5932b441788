"""A saved classifier as a function of texts."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from rich.console import RenderableType

from regard.engines.native.attention_capture import AttentionCapture
from regard.errors import SettingsError
from regard.evaluation.classification import Logits
from regard.inspection.interventions import HeadChange, Silenced
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
from regard.recipes.open_run import Run
from regard.settings import counted
from regard.tasks.families.classification import classify_examples
from regard.tasks.families.label_pipeline import Classification, LabelPipeline
from regard.tasks.families.pipeline import ablate_heads
from regard.tasks.families.text_look import BETWEEN, TextLook
from regard.tasks.text_classes.task import EncodedText, TextClassification
from regard.text.preprocess import require_texts
from regard.text.special_tokens import (
    EOS,
    SPACE,
    SPECIAL_PIECES,
    UNK,
    legible_piece,
)
from regard.text.tokenizer import unknown_words
from regard.types import AttentionHook

TEXTS_AT_ONCE = 1024
SHOWN_NGRAMS = 5


@dataclass(frozen=True, eq=False, repr=False)
class ClassifiedText(Classification[AttentionCapture], TextLook):
    """The labels of a text; a look has the attention of its tokens."""

    kind = "class"

    def answers(self) -> list[RenderableType]:
        return [self.table()]

    def shown_texts(self) -> tuple[str, str]:
        """The text, if an encoder read it, and its likeliest label."""
        answer = answer_text(self.part, self.given, self.label)
        return "" if self.part == "decoder" else self.given, answer


class TextLabelPipeline(LabelPipeline[TextClassification, AnyPredictor, ClassifiedText]):
    """A classifier as a function of texts, one or many at once; a pair is `A ||| B`."""

    look_options = "layer head every pieces kind"

    def __init__(self, run: Run, *others: Run) -> None:
        super().__init__(run, *others)
        self.look_part = self.task.recipe.model.attention_part

    def stream(self, given: Sequence[str]) -> Iterator[ClassifiedText]:
        """An answer for each text, in order; an empty text gets one too, with a note."""
        require_texts("texts", given)
        for some in chunked(given, TEXTS_AT_ONCE):
            parts = [self._parts(text) for text in some]
            encoded = self.task.encode(parts)
            found = self.voted_labels(partial(self._logits_of, parts, encoded))
            for text, one, labels in zip(some, encoded, found, strict=True):
                yield ClassifiedText(text, labels, notes=self._notes(text, one))

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
                f"{self.folder} classifies pairs: expected two texts with {BETWEEN} between "
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
        self, texts: str | Sequence[str], *, changes: Sequence[HeadChange] = ()
    ) -> ClassifiedText:
        """The labels of a text with its attention, under `changes`; several texts are joined by
        spaces, or are the two of a pair.
        """
        between = f" {BETWEEN} " if self.text_counts == (2,) else " "
        text = texts if isinstance(texts, str) else between.join(texts)
        if not text.strip():
            raise SettingsError("give a TEXT to classify and look into")
        return self.look_under(changes, partial(self._look, text))

    def _look(self, text: str, changes: Sequence[HeadChange]) -> ClassifiedText:
        [encoded] = self.task.encode([self._parts(text)])
        recorder = AttentionRecorder(scores=True)
        logits = self._logits(encoded, compose_hooks(*changes, recorder))
        before = self._logits(encoded, None) if changes else None
        [labels] = self.likely_labels(logits, before)
        looked = ClassifiedText(
            text,
            labels,
            notes=(*self._notes(text, encoded), *self._ngram_notes(encoded, labels[0].label)),
            attention=AttentionCapture({self.look_part: self._maps(text, encoded, recorder)}),
        )
        answer, size = partial(self._answer_without, text, encoded), len(encoded.ids)
        return replace(looked, ablate=partial(ablate_heads, looked.heads, size, answer))

    def _answer_without(self, text: str, encoded: EncodedText, ablation: Silenced) -> str:
        """The likeliest label without a head or a layer, as the viewer shows it."""
        [labels] = self.likely_labels(self._logits(encoded, ablation))
        return answer_text(self.look_part, text, labels[0].label)

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
        inputs = self.task.to_inputs([encoded]).to(self.device)
        return np.asarray(self.model(inputs, hook=hook).double().cpu().numpy())

    def _maps(self, text: str, encoded: EncodedText, recorder: AttentionRecorder) -> AttentionMaps:
        maps = recorder.self_attention(self.look_part, self._axis(text, encoded))
        if maps is None:
            family = self.task.recipe.model.known_encoder.family
            raise SettingsError(
                f"{self.folder}: its encoder, {family}, has no attention to look at; train "
                "one that has, such as trec6"
            )
        return maps

    def _axis(self, text: str, encoded: EncodedText) -> Axis:
        """The tokens that the model read, unknown ones as they were written."""
        tokenizer = self.task.tokenizer
        unknown = [word for part in self._parts(text) for word in unknown_words(tokenizer, part)]
        ids = [self.task.recipe.model.text_start, *encoded.ids]
        axis = build_axis(ids, tokenizer, unknown[: ids.count(UNK)])
        if not encoded.is_pair:
            return axis
        middle = encoded.first + 1
        pair = AxisSegment("first", 0, middle), AxisSegment("second", middle, len(ids))
        return axis._replace(segments=pair)


def answer_text(part: Part, text: str, label: str) -> str:
    """The answer in the viewer: a label, after the text if a decoder read the text."""
    return f"{text} → {label}" if part == "decoder" else label
