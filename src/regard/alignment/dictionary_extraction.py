"""Extracts a bilingual dictionary from a model's word alignments."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

from regard.alignment.dictionary import DictionaryEntry
from regard.alignment.extraction import AlignmentSettings, align
from regard.alignment.run_alignment import TokenPair, token_attention
from regard.alignment.word_axes import tokenize_text, word_axis
from regard.corpora.corpus import Pair
from regard.recipes.run_folder import Run


def extract_dictionary(
    run: Run, pairs: Iterable[Pair], settings: AlignmentSettings, *, min_count: int
) -> list[DictionaryEntry]:
    """The best translation of each source word, among those aligned `min_count` times, sorted.

    Words that the model's vocabulary lacks are aligned like others. Pairs that are too long for the
    model are left out. The best translation has the highest Dice coefficient, 2 c(s, t) / (c(s) +
    c(t)): by count alone the translation of a rare word would often be an article.
    """
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    totals: Counter[str] = Counter()
    for attention in token_attention(run, _tokenize_pairs(run, pairs)):
        for column, row in align(attention, settings):
            target = attention.rows.words[row]
            counts[attention.columns.words[column]][target] += 1
            totals[target] += 1
    entries = []
    for source, targets in sorted(counts.items()):
        total = targets.total()
        candidates = [
            (-count / (total + totals[target]), target)  # ties go to the first in sorted order
            for target, count in targets.items()
            if count >= min_count
        ]
        if candidates:
            _, best = min(candidates)
            entries.append(DictionaryEntry(source, best, targets[best], targets[best] / total))
    return entries


def _tokenize_pairs(run: Run, pairs: Iterable[Pair]) -> Iterator[TokenPair]:
    """The words of each pair that is not too long for the model."""
    for pair in pairs:
        source, target = (
            tokenize_text(text.strip(), tokenizer)
            for text, tokenizer in zip(pair, run.tokenizers, strict=True)
        )
        if max(len(source.ids), len(target.ids)) <= run.longest:
            yield TokenPair(source.ids, target.ids, word_axis(source), word_axis(target))
