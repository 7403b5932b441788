"""The alignments of a model -> a bilingual dictionary."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

from regard.corpora.pairs import Pair
from regard.inspection.alignment import AlignmentSettings, align
from regard.inspection.lexical import cut_text, word_axis
from regard.recipes.run_folder import Run
from regard.serving.aligning import Worded, attend_words
from regard.serving.dictionary import Entry


def learn_dictionary(
    run: Run, pairs: Iterable[Pair], settings: AlignmentSettings, *, min_count: int
) -> list[Entry]:
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
        rated = [
            (-count / (total + totals[target]), target)  # of equals the first in their order wins
            for target, count in targets.items()
            if count >= min_count
        ]
        if rated:
            _, target = min(rated)
            entries.append(Entry(source, target, targets[target], targets[target] / total))
    return entries


def _linked_words(
    run: Run, pairs: Iterable[Pair], settings: AlignmentSettings
) -> Iterator[tuple[str, str]]:
    """Each source word and target word that the model aligns."""
    for attention in attend_words(run, _cut_pairs(run, pairs)):
        for column, row in align(attention, settings):
            yield attention.columns.words[column], attention.rows.words[row]


def _cut_pairs(run: Run, pairs: Iterable[Pair]) -> Iterator[Worded]:
    """The words of each pair that the model can take."""
    for pair in pairs:
        source, target = (
            cut_text(text.strip(), one) for text, one in zip(pair, run.tokenizers, strict=True)
        )
        if max(len(source.ids), len(target.ids)) <= run.longest:
            yield Worded(source.ids, target.ids, word_axis(source), word_axis(target))
