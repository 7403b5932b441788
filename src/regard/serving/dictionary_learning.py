"""The alignments of a model -> a bilingual dictionary."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import tee

from regard.corpora.pairs import Pair
from regard.corpora.store import TokenPair
from regard.inspection.alignment import AlignmentSettings, align
from regard.inspection.lexical import Cut, cut_text, word_axis
from regard.recipes.run_folder import Run
from regard.serving.aligning import attend_tokens
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
    cuts, told = tee(_cut_pairs(run, pairs))
    tokens = (TokenPair(source.ids, target.ids) for source, target in told)
    for (source, target), attention in zip(cuts, attend_tokens(run, tokens), strict=True):
        sides = replace(attention, rows=word_axis(target), columns=word_axis(source))
        for column, row in align(sides, settings):
            yield sides.columns.words[column], sides.rows.words[row]


def _cut_pairs(run: Run, pairs: Iterable[Pair]) -> Iterator[Sequence[Cut]]:
    """Both sides of each pair that the model can take."""
    for pair in pairs:
        cuts = [cut_text(text.strip(), one) for text, one in zip(pair, run.tokenizers, strict=True)]
        if all(len(cut.ids) <= run.longest for cut in cuts):
            yield cuts
