"""What a model's thread does with the items of requests."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from regard.alignment.run_alignment import align_pairs, best_alignment
from regard.corpora.corpus import Pair
from regard.decoding.settings import DecodingSettings
from regard.decoding.tracing.observer import SearchObserver, SearchStep
from regard.engines.engine import TranslationRequest
from regard.errors import SearchError
from regard.inspection.interventions import InterventionRequest
from regard.pipelines.answer import Answer
from regard.pipelines.markup.markup_translator import translate_markup, translate_protected
from regard.pipelines.streaming import PartialTranslations
from regard.pipelines.translator import Translator
from regard.pipelines.viewer_document import ViewerDocument, viewer_document
from regard.server.batcher import Waiters
from regard.text.preprocess import PreparedText, part_index
from regard.types import Link


class CancelOnDisconnect(SearchObserver):
    """Cancels the search of lines for which no client waits any more."""

    def __init__(self, is_waiting: Callable[[int], bool]) -> None:
        self._is_waiting = is_waiting

    def on_step(self, step: SearchStep, /) -> Collection[int]:
        return [number for number in step.numbers if not self._is_waiting(part_index(number).line)]


@dataclass(frozen=True)
class TranslateLines:
    """Tokenized sentences -> answers."""

    translator: Translator
    settings: DecodingSettings
    streamed: bool = False
    """Whether partial translations are sent while the search runs, which takes some time."""
    whole: bool = False
    """Whether URLs, e-mail addresses and placeholders are translated like other text."""

    def __call__(self, lines: Sequence[PreparedText], waiters: Waiters, /) -> list[Answer | None]:
        """The answer to each line; None where the client disconnected before the search.

        Lines with protected text are translated apart, without partial translations.
        """
        can_cancel = self._can_cancel
        protected: list[int] = []
        plain: list[int] = []
        for position, line in enumerate(lines):
            if self.streamed or can_cancel or waiters.is_waiting(position):
                apart = not self.whole and self.translator.holds_codes(line.text)
                (protected if apart else plain).append(position)
        answers: list[Answer | None] = [None] * len(lines)
        for position, answer in zip(plain, self._translate(lines, plain, waiters), strict=True):
            answers[position] = answer
        if protected:
            translator = self.translator
            if can_cancel:
                translator = _cancel_if_unwanted(translator, waiters, protected)
            sentences = [lines[position].text for position in protected]
            restored = translate_protected(translator, sentences, TranslationRequest(self.settings))
            for position, answer in zip(protected, restored, strict=True):
                answers[position] = answer
        return answers

    def _translate(
        self, lines: Sequence[PreparedText], positions: Sequence[int], waiters: Waiters
    ) -> list[Answer]:
        """The answers to the lines at some positions of the batch."""
        translator = self.translator
        if self.streamed:
            send = PartialTranslations(
                translator.target, lambda line, text: waiters.send_partial(positions[line], text)
            )
            translator = translator.observed(send)
        elif self._can_cancel:
            cancel = CancelOnDisconnect(lambda line: waiters.is_waiting(positions[line]))
            translator = translator.observed(cancel)
        chosen = [lines[position] for position in positions]
        return translator.translate_tokenized(chosen, self.settings)

    @property
    def _can_cancel(self) -> bool:
        """Whether a search can be cancelled while it runs; the fast engines end sooner anyway."""
        return self.translator.engine_for(self.settings) == "native" and not self.translator.on_gpu


def _cancel_if_unwanted(
    translator: Translator, waiters: Waiters, positions: Collection[int]
) -> Translator:
    """The translator, whose search is cancelled once no client waits for any of the positions."""
    return translator.observed(
        CancelOnDisconnect(lambda _: any(map(waiters.is_waiting, positions)))
    )


@dataclass(frozen=True)
class TranslateMarkup:
    """Lines with inline markup -> their translations with it.

    A line may be translated in several searches, so a batch can only be cancelled as a whole.
    """

    translator: Translator
    settings: DecodingSettings
    split: bool | None = None

    def __call__(self, lines: Sequence[str], waiters: Waiters, /) -> list[str]:
        translator = self.translator
        if not translator.on_gpu:
            translator = _cancel_if_unwanted(translator, waiters, range(len(lines)))
        return translate_markup(translator, lines, self.settings, split=self.split)


@dataclass(frozen=True)
class RecordAttention:
    """Lines -> their translations and attention weights, as documents for the viewer."""

    translator: Translator
    settings: DecodingSettings
    changes: tuple[InterventionRequest, ...] = ()
    tree: bool = False

    def __call__(self, lines: Sequence[str], waiters: Waiters, /) -> list[ViewerDocument]:
        name = self.translator.runs[0].folder.path.resolve().name
        return [
            viewer_document(self._look(line, waiters, position), model=name)
            for position, line in enumerate(lines)
        ]

    def _look(self, line: str, waiters: Waiters, position: int) -> Answer:
        translator = _cancel_if_unwanted(self.translator, waiters, [position])
        return translator.look(
            line, self.settings, changes=self.changes, tree=self.tree, split=False
        )


@dataclass(frozen=True)
class AlignPairs:
    """Sentence pairs -> their word links."""

    translator: Translator

    def __call__(self, pairs: Sequence[Pair], waiters: Waiters, /) -> list[frozenset[Link]]:
        run = self.translator.runs[0]
        for pair in pairs:
            self._check_length(pair)
        return list(align_pairs(run, pairs, best_alignment(run)))

    def _check_length(self, pair: Pair) -> None:
        """An error if a sentence is longer than the model can take whole."""
        limit = self.translator.limit
        for text, tokenizer in zip(pair, self.translator.runs[0].tokenizers, strict=True):
            tokens = len(tokenizer.encode([text])[0])
            if tokens > limit:
                raise SearchError(
                    f"a sentence of {tokens} tokens is longer than the {limit} that the "
                    "model can align at once; send its sentences one by one"
                )
