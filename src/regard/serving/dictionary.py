"""A bilingual dictionary: one translation for a word, counted over the alignments of a model."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from itertools import tee
from pathlib import Path

from regard.corpora.pairs import Pair
from regard.corpora.readers import read_lines
from regard.corpora.store import TokenPair
from regard.errors import CorpusError, SettingsError
from regard.files import write_whole
from regard.inspection.alignment import AlignmentSettings, align
from regard.inspection.lexical import Cut, cut_text, word_axis
from regard.recipes.run_folder import Run
from regard.serving.aligning import attend_tokens
from regard.serving.lines import token_limit
from regard.text.lists import WordTokenizer
from regard.text.normalize import normalize

KEEP, COPY = "keep", "copy"
COLUMNS = 2, 4
"""Of a file: source and target, or also count and probability."""


@dataclass(frozen=True)
class Entry:
    """A source word and its best translation."""

    source: str
    target: str
    count: int
    """How often the two were aligned."""
    probability: float
    """The share of this among all translations of the source word."""


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


def write_dictionary(entries: Iterable[Entry], path: Path) -> None:
    """Write a line for each entry: source, target, count and probability, tabs between them."""
    lines = ("{}\t{}\t{}\t{:.4f}\n".format(*astuple(entry)) for entry in entries)
    write_whole(path, "".join(lines).encode())


def read_dictionary(path: str | Path) -> dict[str, str]:
    """The translation of each word in a file of two columns, or of the four that we write."""
    translations: dict[str, str] = {}
    lines: dict[str, int] = {}
    for number, line in enumerate(read_lines(path), 1):
        if not line.strip():
            continue
        columns = [column.strip() for column in line.split("\t")]
        if len(columns) not in COLUMNS:
            raise CorpusError(
                f"{path}: line {number}: expected 2 columns, a word and its translation, or 4, "
                f"also count and probability, with tabs between them; found {len(columns)} in "
                f"{line[:40]!r}"
            )
        source, target = normalize(columns[0], "nfc", lowercase=False), columns[1]
        _check_word(source, target, f"{path}: line {number}")
        if source in translations:
            raise CorpusError(
                f"{path}: line {number}: {source!r} was translated on line {lines[source]} "
                "already; keep one of them"
            )
        translations[source], lines[source] = target, number
    if not translations:
        raise CorpusError(f"{path}: holds no entries: a line has a word, a tab and a translation")
    return translations


def read_unknown(option: str) -> Mapping[str, str] | None:
    """What the option says shall take the place of unknown words: nothing, copies, or entries."""
    if option == KEEP:
        return None
    if option == COPY:
        return {}
    if not Path(option).exists():
        raise SettingsError(
            f"--unknown {option}: neither {KEEP} nor {COPY}, nor a file (looked in {Path.cwd()})"
        )
    return read_dictionary(option)


def _check_word(source: str, target: str, where: str) -> None:
    """An error unless there is a translation, of something that can be looked up."""
    if not source or not target:
        side = "translation" if source else "word"
        raise CorpusError(f"{where}: the {side} is missing: {source or target!r} stands alone")
    words = [piece.strip() for piece in WordTokenizer.cut(source) if piece.strip()]
    if len(words) > 1:
        raise CorpusError(
            f"{where}: {source!r} can never be looked up: a text is looked up word by word, and "
            f"this is {len(words)}: {' '.join(words)}"
        )


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
    limit = token_limit(run)
    for pair in pairs:
        cuts = [cut_text(text.strip(), one) for text, one in zip(pair, run.tokenizers, strict=True)]
        if all(len(cut.ids) <= limit for cut in cuts):
            yield cuts
