"""PosUnk (Luong et al. 2015, arXiv 1410.8206): each UNK of a model with a vocabulary of words is
replaced by a dictionary's translation, or a copy, of the source word that it attends to.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from regard.alignment.extraction import AlignmentSettings, align
from regard.alignment.run_alignment import TokenPair, has_cross_attention, token_attention
from regard.alignment.word_axes import (
    TokenizedText,
    piece_axis,
    tokenize_text,
    unknown_axis,
    word_axis,
)
from regard.errors import SettingsError
from regard.recipes.open_run import Run
from regard.text.preprocess import TokenizedLine
from regard.text.special_tokens import UNK, UNK_SURFACE
from regard.text.tokenizer import normalize
from regard.types import AttentionHook, Hypothesis


@dataclass(frozen=True)
class UnknownWordReplacer:
    """Replaces unknown words of translations by words of a dictionary or of the source."""

    run: Run  # the model whose attention is used; its target vocabulary is that of the translations
    dictionary: Mapping[str, str]  # translations of source words; others are copied
    prefix_words: Sequence[str] = ()  # unknown words of a forced prefix, the first of a line
    forbidden: Sequence[str] = ()  # words not allowed as replacements: `⁇` stays in their place
    hook: AttentionHook | None = None  # the interventions during the search

    def replace_in_lines(
        self, lines: Sequence[TokenizedLine], n_best: Sequence[Sequence[Sequence[Hypothesis]]]
    ) -> list[list[list[Hypothesis]]]:
        """The n best of each part of each line, with their unknown words replaced."""
        replacements = self.find_replacements(self._unknowns(lines, n_best))

        def fill(hypothesis: Hypothesis, part: int) -> Hypothesis:
            if UNK not in hypothesis.tokens:
                return hypothesis
            words = [UNK_SURFACE if one in self.forbidden else one for one in next(replacements)]
            if part == 0:
                words = [*self.prefix_words, *words[len(self.prefix_words) :]][: len(words)]
            return replace(hypothesis, replacements=tuple(words))

        return [
            [[fill(one, part) for one in best] for part, best in enumerate(parts)]
            for parts in n_best
        ]

    def _unknowns(
        self, lines: Sequence[TokenizedLine], n_best: Sequence[Sequence[Sequence[Hypothesis]]]
    ) -> Iterator[tuple[TokenizedText, Sequence[int]]]:
        """Pairs of a source and a translation that has unknown words."""
        for line, parts in zip(lines, n_best, strict=True):
            if not any(UNK in hypothesis.tokens for best in parts for hypothesis in best):
                continue
            surfaces = line.surfaces(self.run.tokenizers.source)
            for ids, part_surfaces, best in zip(line.parts, surfaces, parts, strict=True):
                source = TokenizedText(ids, part_surfaces)
                yield from ((source, one.tokens) for one in best if UNK in one.tokens)

    def find_replacements(
        self, translations: Iterable[tuple[TokenizedText, Sequence[int]]]
    ) -> Iterator[list[str]]:
        """The replacements of each translation's unknown words, in order.

        They are found by cross attention under teacher forcing, averaged over layers and heads; a
        word stays `⁇` if it attends to no word.
        """
        text, tokenizer = self.run.recipe.text, self.run.tokenizers.target
        settings = text.target or text.source
        axis = word_axis if settings.kind == "words" else piece_axis  # what UNK stands for
        pairs = (
            TokenPair(source.ids, target, axis(source), unknown_axis(target, tokenizer))
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
            f"unknown: {named}: replacing an unknown word needs attention to the source, to find "
            "the word that it stands for; use a model with attention, or keep unknown words"
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
