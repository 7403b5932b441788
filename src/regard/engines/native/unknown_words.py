"""Replaces unknown words of translations: PosUnk (Luong et al. 2015, arXiv 1410.8206).

A model with a vocabulary of words outputs UNK for all others. The source word that it attends to
there is translated by a dictionary, or copied, in its place.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from regard.alignment.extraction import AlignmentSettings, align
from regard.alignment.run_alignment import TokenPair, has_cross_attention, token_attention
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
from regard.text.tokenizer import normalize
from regard.types import AttentionHook, Hypothesis


class TranslationWithUnknowns(NamedTuple):
    """A translation with unknown words, and its source."""

    source: TokenizedText
    target: Sequence[int]


@dataclass(frozen=True)
class UnknownWordReplacer:
    """Replaces unknown words of translations by words of a dictionary or of the source."""

    run: Run
    """The model whose attention is used; its target vocabulary is that of the translations."""
    dictionary: Mapping[str, str]
    """Translations of source words; others are copied."""
    prefix_words: Sequence[str] = ()
    """The unknown words of a forced prefix, which are the first of a line."""
    forbidden: Sequence[str] = ()
    """Words that are not allowed as replacements: `⁇` stays in their place."""
    hook: AttentionHook | None = None
    """The interventions under which the translations were searched."""

    def replace_in_lines(
        self, lines: Sequence[TokenizedLine], n_best: Sequence[Sequence[Sequence[Hypothesis]]]
    ) -> list[list[list[FilledHypothesis]]]:
        """The n best of each part of each line, with their unknown words replaced."""
        replacements = self.find_replacements(self._unknowns(lines, n_best))
        return [
            [
                [
                    self._fill(hypothesis, next(replacements), first=number == 0)
                    if UNK in hypothesis.tokens
                    else FilledHypothesis(hypothesis)
                    for hypothesis in best
                ]
                for number, best in enumerate(parts)
            ]
            for parts in n_best
        ]

    def _unknowns(
        self, lines: Sequence[TokenizedLine], n_best: Sequence[Sequence[Sequence[Hypothesis]]]
    ) -> Iterator[TranslationWithUnknowns]:
        """The translations with unknown words; only the lines of these are cut into surfaces."""
        for line, parts in zip(lines, n_best, strict=True):
            if not any(UNK in hypothesis.tokens for best in parts for hypothesis in best):
                continue
            surfaces = line.surfaces(self.run.tokenizers.source)
            for ids, part_surfaces, best in zip(line.parts, surfaces, parts, strict=True):
                for hypothesis in best:
                    if UNK in hypothesis.tokens:
                        source = TokenizedText(ids, part_surfaces)
                        yield TranslationWithUnknowns(source, hypothesis.tokens)

    def find_replacements(
        self, translations: Iterable[TranslationWithUnknowns]
    ) -> Iterator[list[str]]:
        """The replacements of each translation's unknown words, in their order.

        Cross attention under teacher forcing, averaged over layers and heads, links an unknown word
        to a source word; it stays `⁇` if it attends to none.
        """
        text = self.run.recipe.text
        settings = text.target or text.source
        source_axis = word_axis if settings.kind == "words" else piece_axis  # what UNK stands for
        pairs = (
            TokenPair(
                source.ids,
                target,
                source_axis(source),
                unknown_axis(target, self.run.tokenizers.target),
            )
            for source, target in translations
        )
        for attention in token_attention(self.run, pairs, hook=self.hook):
            columns = {row: column for column, row in align(attention, AlignmentSettings())}
            words = [
                translate_word(attention.columns.words[columns[row]], self.dictionary)
                if row in columns
                else UNK_SURFACE
                for row in range(len(attention.rows.words))
            ]
            yield [normalize(word, settings.form, lowercase=settings.lowercase) for word in words]

    def _fill(
        self, hypothesis: Hypothesis, words: Sequence[str], *, first: bool
    ) -> FilledHypothesis:
        words = [UNK_SURFACE if word in self.forbidden else word for word in words]
        if first:
            words = [*self.prefix_words, *words[len(self.prefix_words) :]][: len(words)]
        return FilledHypothesis(hypothesis, words)


def build_unknown_replacer(
    runs: Sequence[Run],
    dictionary: Mapping[str, str],
    prefix: str,
    forbidden: Sequence[str],
    hook: AttentionHook | None,
) -> UnknownWordReplacer:
    """The replacer that uses the first of `runs` with cross attention."""
    run = next(filter(has_cross_attention, runs), None)
    if run is None:
        named = ", ".join(f"{run.folder.path} ({run.recipe.model.family})" for run in runs)
        raise SettingsError(
            f"unknown: {named}: without attention to the source there is nothing to tell which "
            "word an unknown one stands for; use a model with attention, or keep unknown words"
        )
    tokens = zip(*tokenize_text(prefix, run.tokenizers.target), strict=True)
    prefix_words = [surface for i, surface in tokens if i == UNK]
    return UnknownWordReplacer(run, dictionary, prefix_words, forbidden, hook)


def translate_word(word: str, dictionary: Mapping[str, str]) -> str:
    """The entry of a word, or of its lowercase form with a capital put back; else the word."""
    known = normalize(word, "nfc", lowercase=False)
    if known in dictionary:
        return dictionary[known]
    entry = dictionary.get(known.lower())
    if not entry:
        return word
    return entry[0].upper() + entry[1:] if known[0].isupper() else entry
