"""The alignments of a model -> a bilingual dictionary."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

from regard.alignment.dictionary import DictionaryEntry
from regard.alignment.extraction import AlignmentSettings, align
from regard.alignment.run_alignment import LabelledTokenPair, labelled_attention
from regard.alignment.word_axes import tokenize_text, word_axis
from regard.corpora.corpus import Pair
from regard.recipes.run_folder import Run


def extract_dictionary(
    run: Run, pairs: Iterable[Pair], settings: AlignmentSettings, *, min_count: int
) -> list[DictionaryEntry]:
    """The best of the translations aligned so often with each source word, in the words' order.

    Words that the model's vocabulary lacks count like others: they are unknown to the model, which
    aligns them all the same, but not to the texts. Pairs longer than the model can take are left
    out. The best translation has the highest Dice coefficient, 2 c(s, t) / (c(s) + c(t)): by count
    alone a rare word, whose alignments are seldom clear, would often become an article.
    """
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    totals: Counter[str] = Counter()
    for source, target in _linked_words(run, pairs, settings):
        counts[source][target] += 1
        totals[target] += 1
    entries = []
    for source, targets in sorted(counts.items()):
        total = targets.total()
        candidates = [
            (-count / (total + totals[target]), target)  # of equals the first in their order wins
            for target, count in targets.items()
            if count >= min_count
        ]
        if candidates:
            _, target = min(candidates)
            entries.append(
                DictionaryEntry(source, target, targets[target], targets[target] / total)
            )
    return entries


def _linked_words(
    run: Run, pairs: Iterable[Pair], settings: AlignmentSettings
) -> Iterator[tuple[str, str]]:
    """Each source word and target word that the model aligns."""
    for attention in labelled_attention(run, _tokenized_pairs(run, pairs)):
        for column, row in align(attention, settings):
            yield attention.columns.words[column], attention.rows.words[row]


def _tokenized_pairs(run: Run, pairs: Iterable[Pair]) -> Iterator[LabelledTokenPair]:
    """The words of each pair that the model can take."""
    for pair in pairs:
        source, target = (
            tokenize_text(text.strip(), one) for text, one in zip(pair, run.tokenizers, strict=True)
        )
        if max(len(source.ids), len(target.ids)) <= run.longest:
            yield LabelledTokenPair(source.ids, target.ids, word_axis(source), word_axis(target))
