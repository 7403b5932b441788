"""What stands for the unknown words of a translation: PosUnk (Luong et al. 2015, arXiv 1410.8206).

A vocabulary of words ends somewhere, and a model can say of what lies beyond only that there is a
word. What it attends to when it says so is the word that is meant: that word's entry in a
dictionary takes the place of the unknown one, or else the word itself.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from regard.alignment.extraction import AlignmentSettings, align
from regard.alignment.run_alignment import LabelledTokenPair, attends, labelled_attention
from regard.alignment.word_axes import (
    TokenizedText,
    piece_axis,
    tokenize_text,
    unknown_axis,
    word_axis,
)
from regard.engines.engine import FilledHypothesis
from regard.errors import SettingsError
from regard.recipes.run_folder import Run
from regard.text.preprocess import TokenizedLine
from regard.text.special_tokens import UNK, UNK_SURFACE
from regard.text.tokenizer import Tokenizer, normalize
from regard.types import AttentionHook, Hypothesis


class TranslationWithUnknowns(NamedTuple):
    """A translation with unknown words, and what it is a translation of."""

    source: TokenizedText
    target: Sequence[int]


@dataclass(frozen=True)
class UnknownWordReplacer:
    """Puts words in the place of unknown ones."""

    run: Run
    """Whose attention tells what they stand for; its target vocabulary is that of the answers."""
    dictionary: Mapping[str, str]
    """Translations of source words. One that it lacks is copied."""
    prefix_ids: Sequence[str] = ()
    """What the first unknown words of a line are known to be: those of a forced prefix."""
    forbidden: Sequence[str] = ()
    """What may not be said: `⁇` stays in its place."""
    change: AttentionHook | None = None
    """What was made of the attention when the answers were searched for."""

    def replace_in_lines(
        self, lines: Sequence[TokenizedLine], found: Sequence[Sequence[Sequence[Hypothesis]]]
    ) -> list[list[list[FilledHypothesis]]]:
        """The n best of each part of each line, their unknown words filled in."""
        words = self.find_replacements(
            TranslationWithUnknowns(cut, one.tokens)
            for line, parts in zip(lines, found, strict=True)
            if any(UNK in one.tokens for best in parts for one in best)
            for cut, best in zip(
                _tokenized_parts(line, self.run.tokenizers.source), parts, strict=True
            )
            for one in best
            if UNK in one.tokens
        )
        return [
            [
                [
                    self._with_replacements(one, next(words), first=not part)
                    if UNK in one.tokens
                    else FilledHypothesis(one)
                    for one in best
                ]
                for part, best in enumerate(parts)
            ]
            for parts in found
        ]

    def find_replacements(
        self, translations: Iterable[TranslationWithUnknowns]
    ) -> Iterator[list[str]]:
        """For each translation what stands for its unknown words, in their order.

        The model is told each translation. Its attention, averaged over layers and heads, links an
        unknown word to a source word; `⁇` stays where it looks at none.
        """
        text = self.run.recipe.text
        settings = text.target or text.source
        source_axis = (
            word_axis if settings.kind == "words" else piece_axis
        )  # what UNK is the name of
        target = self.run.tokenizers.target
        labelled = (
            LabelledTokenPair(
                one.source.ids,
                one.target,
                source_axis(one.source),
                unknown_axis(one.target, target),
            )
            for one in translations
        )
        for attention in labelled_attention(self.run, labelled, change=self.change):
            found = {row: column for column, row in align(attention, AlignmentSettings())}
            words = [
                translate_word(attention.columns.words[found[row]], self.dictionary)
                if row in found
                else UNK_SURFACE
                for row in range(len(attention.rows.words))
            ]
            yield [normalize(word, settings.form, lowercase=settings.lowercase) for word in words]

    def _with_replacements(
        self, hypothesis: Hypothesis, words: Sequence[str], *, first: bool
    ) -> FilledHypothesis:
        words = [UNK_SURFACE if word in self.forbidden else word for word in words]
        if first:
            words = [*self.prefix_ids, *words[len(self.prefix_ids) :]][: len(words)]
        return FilledHypothesis(hypothesis, words)


def build_unknown_replacer(
    runs: Sequence[Run],
    dictionary: Mapping[str, str],
    prefix: str,
    forbidden: Sequence[str],
    change: AttentionHook | None,
) -> UnknownWordReplacer:
    """What puts words in the place of unknown ones, by the first of `runs` that attends."""
    run = next(filter(attends, runs), None)
    if run is None:
        named = ", ".join(f"{run.folder.path} ({run.recipe.model.family})" for run in runs)
        raise SettingsError(
            f"unknown: {named}: without attention to the source there is nothing to tell which "
            "word an unknown one stands for; use a model with attention, or keep unknown words"
        )
    cut = zip(*tokenize_text(prefix, run.tokenizers.target), strict=True)
    return UnknownWordReplacer(
        run, dictionary, [word for id_, word in cut if id_ == UNK], forbidden, change
    )


def translate_word(word: str, dictionary: Mapping[str, str]) -> str:
    """The entry of a word, or of its small letters with a capital put back; else the word."""
    known = normalize(word, "nfc", lowercase=False)
    if known in dictionary:
        return dictionary[known]
    entry = dictionary.get(known.lower())
    if not entry:
        return word
    return entry[0].upper() + entry[1:] if known[0].isupper() else entry


def _tokenized_parts(line: TokenizedLine, tokenizer: Tokenizer) -> Iterator[TokenizedText]:
    """The parts of a line with the stretches of its text that their tokens are for."""
    return map(TokenizedText, line.parts, line.surfaces(tokenizer))
