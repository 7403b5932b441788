"""What can be done for a request: the tasks that a model's thread is given."""

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
from regard.pipelines.markup.markup_translator import translate_markup
from regard.pipelines.markup.protected_text import translate_protected
from regard.pipelines.streaming import PartialTranslations
from regard.pipelines.translator import Translator
from regard.pipelines.viewer_document import ViewerDocument, viewer_document
from regard.server.batcher import Waiters
from regard.text.preprocess import part_index
from regard.types import Link


class CancelOnDisconnect(SearchObserver):
    """Gives up the lines that nobody waits for any more, and tells nobody anything."""

    def __init__(self, is_waiting: Callable[[int], bool]) -> None:
        self._is_waiting = is_waiting

    def on_step(self, step: SearchStep, /) -> Collection[int]:
        return [number for number in step.numbers if not self._is_waiting(part_index(number).line)]


@dataclass(frozen=True)
class TranslateLines:
    """Sentences -> answers."""

    settings: DecodingSettings
    streamed: bool = False
    """Whether the lines are told of as they grow, which takes some time."""
    whole: bool = False
    """Whether lines go in as they are, with their addresses and placeholders."""

    def __call__(
        self, translator: Translator, lines: Sequence[str], waiters: Waiters, /
    ) -> list[Answer]:
        """The answer to each line; one with addresses or placeholders is not told of before."""
        with_codes = [
            number
            for number, line in enumerate(lines)
            if not self.whole and translator.holds_codes(line)
        ]
        if not with_codes:
            return self._translate(translator, lines, waiters)
        without_codes = ["" if number in with_codes else line for number, line in enumerate(lines)]
        answers = self._translate(translator, without_codes, waiters)
        if self._can_cancel(translator):
            observed_translator = CancelOnDisconnect(
                lambda _: any(map(waiters.is_waiting, with_codes))
            )
            translator = translator.observed(observed_translator)
        sentences = [lines[number] for number in with_codes]
        restored = translate_protected(translator, sentences, TranslationRequest(self.settings))
        for number, answer in zip(with_codes, restored, strict=True):
            answers[number] = answer
        return answers

    def _translate(
        self, translator: Translator, lines: Sequence[str], waiters: Waiters
    ) -> list[Answer]:
        if self.streamed:
            observed_translator = translator.observed(
                PartialTranslations(translator.target, waiters.send_partial)
            )
            return observed_translator.translate(lines, self.settings, split=False)
        if self._can_cancel(translator):
            observed_translator = translator.observed(CancelOnDisconnect(waiters.is_waiting))
            return observed_translator.translate(lines, self.settings, split=False)
        # others are faster than people are to leave: only who has left is left out
        still_waiting = [
            line if waiters.is_waiting(number) else "" for number, line in enumerate(lines)
        ]
        return translator.translate(still_waiting, self.settings, split=False)

    def _can_cancel(self, translator: Translator) -> bool:
        """Whether a search may be given up on its way."""
        return translator.engine_for(self.settings) == "native" and not translator.on_gpu


@dataclass(frozen=True)
class TranslateMarkup:
    """Lines with inline markup -> their translations with it.

    Their sentences may be translated apart, so a batch of them is given up as a whole.
    """

    settings: DecodingSettings
    split: bool | None = None

    def __call__(
        self, translator: Translator, lines: Sequence[str], waiters: Waiters, /
    ) -> list[str]:
        if not translator.on_gpu:  # where nobody has the time to leave
            observed_translator = CancelOnDisconnect(
                lambda _: any(map(waiters.is_waiting, range(len(lines))))
            )
            translator = translator.observed(observed_translator)
        return translate_markup(translator, lines, self.settings, split=self.split)


@dataclass(frozen=True)
class RecordAttention:
    """Lines -> their translations and what was attended to, as documents for a viewer."""

    settings: DecodingSettings
    changes: tuple[InterventionRequest, ...] = ()
    tree: bool = False

    def __call__(
        self, translator: Translator, lines: Sequence[str], waiters: Waiters, /
    ) -> list[ViewerDocument]:
        observed_translator, run = (
            translator.observed(CancelOnDisconnect(waiters.is_waiting)),
            translator.runs[0],
        )
        answers = (
            observed_translator.look(
                line, self.settings, changes=self.changes, tree=self.tree, split=False
            )
            for line in lines
        )
        name = run.folder.path.resolve().name
        return [viewer_document(one, model=name) for one in answers]


@dataclass(frozen=True)
class AlignPairs:
    """Pairs -> their links."""

    def __call__(
        self, translator: Translator, pairs: Sequence[Pair], waiters: Waiters, /
    ) -> list[frozenset[Link]]:
        run = translator.runs[0]
        for pair in pairs:
            _check_length(pair, translator)
        return list(align_pairs(run, pairs, best_alignment(run)))


def _check_length(pair: Pair, translator: Translator) -> None:
    """An error if a model cannot take a sentence whole; cut, its words would be counted anew."""
    for text, tokenizer in zip(pair, translator.runs[0].tokenizers, strict=True):
        tokens = len(tokenizer.encode([text])[0])
        if tokens > translator.limit:
            raise SearchError(
                f"a sentence of {tokens} tokens is longer than the {translator.limit} that the "
                "model can align at once; send its sentences one by one"
            )
