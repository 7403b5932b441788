"""What can be done for a request: the tasks that a model's thread is given."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from regard.corpora.pairs import Pair
from regard.decoding.observe import Observe, Step
from regard.decoding.settings import DecodingSettings
from regard.errors import SearchError
from regard.inspection.changes import Wish
from regard.inspection.document import LookDocument, look_document
from regard.nouns import Link
from regard.serving.aligning import align_pairs, best_alignment
from regard.serving.answer import Answer
from regard.serving.engine import Wanted
from regard.serving.held_codes import carry_codes
from regard.serving.lines import part_place
from regard.serving.markup import translate_markup
from regard.serving.server.gathering import Crowd
from regard.serving.telling import Telling
from regard.serving.translator import Translator


class Leaving(Observe):
    """Gives up the lines that nobody waits for any more, and tells nobody anything."""

    def __init__(self, waits: Callable[[int], bool]) -> None:
        self._waits = waits

    def stepped(self, step: Step, /) -> Collection[int]:
        return [number for number in step.numbers if not self._waits(part_place(number).line)]


@dataclass(frozen=True)
class Translate:
    """Sentences -> answers."""

    settings: DecodingSettings
    streamed: bool = False
    """Whether the lines are told of as they grow, which takes some time."""
    whole: bool = False
    """Whether lines go in as they are, with their addresses and placeholders."""

    def __call__(
        self, translator: Translator, lines: Sequence[str], crowd: Crowd, /
    ) -> list[Answer]:
        """The answer to each line; one with addresses or placeholders is not told of before."""
        held = [
            number
            for number, line in enumerate(lines)
            if not self.whole and translator.holds_codes(line)
        ]
        if not held:
            return self._translate(translator, lines, crowd)
        rest = ["" if number in held else line for number, line in enumerate(lines)]
        answers = self._translate(translator, rest, crowd)
        if self._can_leave(translator):
            told = Leaving(lambda _: any(map(crowd.waits, held)))
            translator = translator.observed(told)
        sentences = [lines[number] for number in held]
        carried = carry_codes(translator, sentences, Wanted(self.settings))
        for number, answer in zip(held, carried, strict=True):
            answers[number] = answer
        return answers

    def _translate(
        self, translator: Translator, lines: Sequence[str], crowd: Crowd
    ) -> list[Answer]:
        if self.streamed:
            told = translator.observed(Telling(translator.target, crowd.tell))
            return told.translate(lines, self.settings, split=False)
        if self._can_leave(translator):
            told = translator.observed(Leaving(crowd.waits))
            return told.translate(lines, self.settings, split=False)
        # others are faster than people are to leave: only who has left is left out
        wanted = [line if crowd.waits(number) else "" for number, line in enumerate(lines)]
        return translator.translate(wanted, self.settings, split=False)

    def _can_leave(self, translator: Translator) -> bool:
        """Whether a search may be given up on its way."""
        return translator.engine_for(self.settings) == "native" and not translator.on_gpu


@dataclass(frozen=True)
class Carry:
    """Lines with inline markup -> their translations with it.

    Their sentences may be translated apart, so a batch of them is given up as a whole.
    """

    settings: DecodingSettings
    split: bool | None = None

    def __call__(self, translator: Translator, lines: Sequence[str], crowd: Crowd, /) -> list[str]:
        if not translator.on_gpu:  # where nobody has the time to leave
            told = Leaving(lambda _: any(map(crowd.waits, range(len(lines)))))
            translator = translator.observed(told)
        return translate_markup(translator, lines, self.settings, split=self.split)


@dataclass(frozen=True)
class LookInto:
    """Lines -> their translations and what was attended to, as documents for a viewer."""

    settings: DecodingSettings
    changes: tuple[Wish, ...] = ()
    tree: bool = False

    def __call__(
        self, translator: Translator, lines: Sequence[str], crowd: Crowd, /
    ) -> list[LookDocument]:
        told, run = translator.observed(Leaving(crowd.waits)), translator.runs[0]
        answers = (
            told.look(line, self.settings, changes=self.changes, tree=self.tree, split=False)
            for line in lines
        )
        name = run.folder.path.resolve().name
        return [look_document(one, model=name) for one in answers]


@dataclass(frozen=True)
class Align:
    """Pairs -> their links."""

    def __call__(
        self, translator: Translator, pairs: Sequence[Pair], crowd: Crowd, /
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
