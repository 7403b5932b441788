"""The functions that a model's threads run on the items of requests."""

from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass

from regard.alignment.run_alignment import align_pairs, best_alignment
from regard.corpora.corpus import Pair
from regard.decoding.settings import DecodingSettings
from regard.decoding.tracing.observer import SearchObserver, SearchStep
from regard.decoding.tracing.partial_translations import PartialTranslations
from regard.engines.translation_request import TranslationRequest
from regard.errors import SearchError
from regard.inspection.interventions import InterventionRequest
from regard.server.batcher import BatchFunction, BatchSlot
from regard.tasks.families.answer import Answer
from regard.tasks.families.viewer_document import ViewerDocument, viewer_document
from regard.tasks.translation.markup.markup_translator import translate_markup, translate_protected
from regard.tasks.translation.pipeline import Translator
from regard.text.preprocess import PreparedText, part_index
from regard.types import Link


class CancelOnDisconnect(SearchObserver):
    """Cancels the search of lines for which no client waits any more."""

    def __init__(self, is_waiting: Callable[[int], bool]) -> None:
        self._is_waiting = is_waiting

    def on_step(self, step: SearchStep, /) -> Collection[int]:
        return [number for number in step.numbers if not self._is_waiting(part_index(number).line)]


def _cancel_if_unwanted(translator: Translator, slots: Sequence[BatchSlot]) -> Translator:
    """The translator, whose search is cancelled once no client waits for any of the slots."""
    return translator.observed(
        CancelOnDisconnect(lambda _: any(slot.is_waiting() for slot in slots))
    )


@dataclass(frozen=True)
class TranslateLines(BatchFunction):
    """Tokenized sentences -> answers."""

    settings: DecodingSettings
    streamed: bool = False  # whether partial translations are sent during the search, at some cost
    whole: bool = False  # whether URLs, e-mail addresses and placeholders are translated too

    @property
    def kind(self) -> Hashable:
        return type(self), self.settings.beam.size, self.streamed

    def __call__(
        self, lines: Sequence[PreparedText], slots: Sequence[BatchSlot], /
    ) -> list[Answer | None]:
        """The answer to each line; None where the client disconnected before the search.

        Lines with protected text are translated separately, without partial translations.
        """
        translator = self.translator
        # the fast engines cannot cancel a search, but finish sooner anyway
        can_cancel = translator.engine_for(self.settings) == "native" and not translator.on_gpu
        plain: list[int] = []
        protected: list[int] = []
        for position, (line, slot) in enumerate(zip(lines, slots, strict=True)):
            if self.streamed or can_cancel or slot.is_waiting():
                apart = not self.whole and translator.holds_codes(line.text)
                (protected if apart else plain).append(position)
        observer: SearchObserver | None = None
        if self.streamed:
            observer = PartialTranslations(
                translator.target, lambda line, text: slots[plain[line]].send_partial(text)
            )
        elif can_cancel:
            observer = CancelOnDisconnect(lambda line: slots[plain[line]].is_waiting())
        observed = translator.observed(observer) if observer else translator
        found = observed.translate_tokenized([lines[one] for one in plain], self.settings)
        answers = dict(zip(plain, found, strict=True))
        if protected:
            if can_cancel:
                translator = _cancel_if_unwanted(translator, [slots[one] for one in protected])
            texts = [lines[one].text for one in protected]
            found = translate_protected(translator, texts, TranslationRequest(self.settings))
            answers |= dict(zip(protected, found, strict=True))
        return [answers.get(position) for position in range(len(lines))]


@dataclass(frozen=True)
class TranslateMarkup(BatchFunction):
    """Lines with inline markup -> their translations; a batch is only cancelled as a whole."""

    settings: DecodingSettings
    split: bool | None = None

    @property
    def kind(self) -> Hashable:
        return type(self), self.settings.beam.size

    def __call__(self, lines: Sequence[str], slots: Sequence[BatchSlot], /) -> list[str]:
        translator = self.translator
        if not translator.on_gpu:
            translator = _cancel_if_unwanted(translator, slots)
        return translate_markup(translator, lines, self.settings, split=self.split)


@dataclass(frozen=True)
class RecordAttention(BatchFunction):
    """Lines -> their translations and attention weights, as documents for the viewer."""

    settings: DecodingSettings
    changes: tuple[InterventionRequest, ...] = ()
    tree: bool = False

    @property
    def kind(self) -> Hashable:
        return type(self), self.settings.beam.size

    def __call__(self, lines: Sequence[str], slots: Sequence[BatchSlot], /) -> list[ViewerDocument]:
        name = self.translator.runs[0].folder.path.resolve().name
        return [
            viewer_document(self._look(line, slot), model=name)
            for line, slot in zip(lines, slots, strict=True)
        ]

    def _look(self, line: str, slot: BatchSlot) -> Answer:
        translator = _cancel_if_unwanted(self.translator, [slot])
        return translator.look(
            line, self.settings, changes=self.changes, tree=self.tree, split=False
        )


@dataclass(frozen=True)
class AlignPairs(BatchFunction):
    """Sentence pairs -> their word links."""

    def __call__(
        self, pairs: Sequence[Pair], slots: Sequence[BatchSlot], /
    ) -> list[frozenset[Link]]:
        run, limit = self.translator.runs[0], self.translator.limit
        for pair in pairs:
            for text, tokenizer in zip(pair, run.tokenizers, strict=True):
                if (tokens := len(tokenizer.encode([text])[0])) > limit:
                    raise SearchError(
                        f"a sentence of {tokens} tokens is longer than the {limit} that the "
                        "model can align at once; send its sentences one by one"
                    )
        return list(align_pairs(run, pairs, best_alignment(run)))
