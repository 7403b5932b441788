"""Statistics of a corpus before training, gathered in one pass over each split."""

import random
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from functools import partial
from itertools import accumulate
from typing import Any, NamedTuple

from regard.corpora.cleaning.pair_filters import CHUNK, CleaningReport, CleaningSettings, clean
from regard.corpora.corpus import Corpus, Pair, SplitName
from regard.corpora.dedup import Hashes, HashSet
from regard.corpora.diagnostics.misalignment import LineAlignment, LineAlignmentScan
from regard.corpora.diagnostics.pair_noise import (
    NOISE_SAMPLE,
    NoiseReport,
    NumberedPair,
    measure_noise,
)
from regard.corpora.diagnostics.split_overlap import SplitOverlap, compare_splits, hash_pairs
from regard.corpora.diagnostics.surface_checks import CheckCount, SurfaceCounter
from regard.corpora.splits import HELD_OUT, SplitSettings, split_corpus
from regard.errors import CorpusError
from regard.iterate import Reservoir, chunked
from regard.text.word_units import count_units

ProgressCallback = Callable[[str, int], None]
"""Called with the name of the current stage and the number of pairs so far."""
_JSON_KEYS = {"read_error": "broken", "surface": "signs"}  # fields with another name in JSON


class LengthStatistics(NamedTuple):
    total: int
    mean: float
    median: int
    most: int  # the 95% quantile
    longest: int

    @classmethod
    def of(cls, lengths: Counter[int]) -> "LengthStatistics":
        """The statistics of lengths, given the number of lines of each length."""
        lines = lengths.total()
        total = sum(length * count for length, count in lengths.items())
        ordered = sorted(lengths)
        reached = list(accumulate(lengths[length] for length in ordered))
        median, most = (
            ordered[bisect_left(reached, share * lines)] if ordered else 0 for share in (0.5, 0.95)
        )
        return cls(total, total / max(1, lines), median, most, max(lengths, default=0))


class SideReport(NamedTuple):
    words: LengthStatistics
    characters: LengthStatistics
    surface: Mapping[str, CheckCount]


class DuplicateCounts(NamedTuple):
    """Repeated sentences, ignoring case and spacing."""

    pairs: int  # that occurred before
    sources: int  # with several translations
    targets: int  # that translate several sources


@dataclass(frozen=True)
class SplitReport:
    pairs: int
    source: SideReport
    target: SideReport
    cleaning: CleaningReport
    """What cleaning would drop; only training pairs are cleaned for training."""
    repeats: DuplicateCounts
    alignment: LineAlignment
    read_error: str  # why reading stopped early; empty if it did not


@dataclass(frozen=True)
class CorpusReport:
    """The statistics of a corpus; `findings.interpret_report` says what they mean."""

    name: str
    languages: tuple[str, str]
    splits: Mapping[SplitName, SplitReport]  # those that the corpus comes with
    cut: Mapping[SplitName, int]  # splits that training would hold out of train, and their sizes
    notes: tuple[str, ...]  # remarks from reading and from holding out
    split_error: str  # why no pairs can be held out; empty if they can
    overlap: SplitOverlap
    sample: tuple[Pair, ...] = field(repr=False)  # random training pairs that cleaning keeps
    noise: NoiseReport  # of a sample of training pairs
    file_starts: tuple[tuple[str, int], ...]
    """If train has several files: each file, and how many pairs come before it."""

    def locate(self, split: SplitName, line: int) -> str:
        """The file and line of a `line` of a split, which is counted from 1 over all files."""
        begun = [start for start in self.file_starts if start[1] < line and split == "train"]
        return f"line {line - begun[-1][1]:,} of {begun[-1][0]}" if begun else f"line {line:,}"

    def to_json(self) -> dict[str, Any]:
        """The numbers, as JSON types."""
        overlap = _to_json(self.overlap)
        return {
            **{key: _to_json(getattr(self, key)) for key in ("name", "languages", "splits", "cut")},
            **{key: overlap[key] for key in ("leaks", "leaking_pairs", "coverage", "near_leaks")},
            "suspects": _to_json(self.noise),
        }


def _to_json(value: Any) -> Any:
    if isinstance(value, CleaningReport):
        return value.to_json()
    if is_dataclass(value):
        value = {each.name: getattr(value, each.name) for each in fields(value)}
    elif hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, Mapping):
        return {_JSON_KEYS.get(key, key): _to_json(inner) for key, inner in value.items()}
    return [_to_json(inner) for inner in value] if isinstance(value, tuple) else value


def analyze_corpus(
    corpus: Corpus,
    cleaning: CleaningSettings,
    split: SplitSettings,
    *,
    choose_leaks: bool = False,
    sample: int = 0,
    seed: int = 1,
    notify: ProgressCallback = lambda doing, pairs: None,
) -> CorpusReport:
    """The report: each split is read once, and train a second time to compare it with the others.

    With `choose_leaks`, the rule for leaks is chosen from the corpus and returned in `overlap.by`.
    `sample` training pairs are kept, drawn by `seed`. Line numbers are those of the files.
    """
    file_starts: list[tuple[str, int]] = []
    reads = dict(corpus.splits)
    if corpus.parts:
        reads["train"] = partial(_read_parts, corpus, file_starts)
    splits: dict[SplitName, SplitReport] = {}
    kept, numbered = list[Pair](), list[NumberedPair]()
    for name, read in reads.items():
        sizes = (sample, NOISE_SAMPLE) if name == "train" else (0, 0)
        fit, scan = Reservoir[Pair](sizes[0], seed), _SplitScan(sizes[1], seed)
        pairs, report = scan.observe(read(), partial(notify, f"reading {name}")), CleaningReport()
        for pair in clean(pairs, cleaning, corpus.languages, report):
            fit.offer(pair)
        splits[name] = scan.result(report)
        kept, numbered = kept + fit.items, numbered + scan.sample.items
    notes = corpus.read_report.messages()
    notify("comparing the sides", 0)
    plain = cleaning.model_copy(update={"drop_wrong_language": False})
    clean_pairs = clean((one.pair for one in numbered), plain, corpus.languages, CleaningReport())
    fit_pairs = set(clean_pairs)
    judged = [one for one in numbered if one.pair in fit_pairs]
    random.Random(seed).shuffle(judged)
    noise = measure_noise(judged)
    whole, split_error, overlap = corpus, "", SplitOverlap()
    if not any(report.read_error for report in splits.values()):
        notify("comparing the splits", 0)
        try:
            whole = split_corpus(corpus, split, notes, by=cleaning.leaks)
        except CorpusError as error:
            split_error = str(error)
        near = cleaning.leaks_ignore == "spacing"
        overlap = compare_splits(whole, None if choose_leaks else cleaning.leaks, near=near)
    missing = [name for name in HELD_OUT if name in whole.splits and name not in splits]
    return CorpusReport(
        corpus.name,
        corpus.languages,
        splits,
        {name: sum(1 for _ in whole.splits[name]()) for name in missing},
        tuple(notes),
        split_error,
        overlap,
        tuple(kept),
        noise,
        tuple(file_starts),
    )


def _read_parts(corpus: Corpus, file_starts: list[tuple[str, int]]) -> Iterator[Pair]:
    """The training pairs; appends the first line of each file to `file_starts`."""
    count = 0
    for part in corpus.parts:
        file_starts.append((part.name, count))
        for pair in part.read():
            count += 1
            yield pair


class _SideScan:
    """The counts of one side of a split."""

    def __init__(self) -> None:
        self._words, self._characters = Counter[int](), Counter[int]()
        self._surface = SurfaceCounter()
        self._once, self.repeated = HashSet(), HashSet()

    def add(self, lines: Iterable[str], distinct: Hashes) -> None:
        """Count some lines; `distinct` has the hashes of those whose pairs are new."""
        self.repeated.add_new(distinct[~self._once.add_new(distinct)])
        for line in lines:
            self._words[count_units(line)] += 1
            self._characters[len(line)] += 1
            self._surface.add(line)

    def result(self) -> SideReport:
        lengths = LengthStatistics.of(self._words), LengthStatistics.of(self._characters)
        return SideReport(*lengths, self._surface.result())


class _SplitScan:
    """All counts of a split, taken while its pairs pass through `observe`."""

    def __init__(self, sample: int, seed: int) -> None:
        self.sample = Reservoir[NumberedPair](sample, seed)
        self._sides = _SideScan(), _SideScan()
        self._alignment, self._distinct = LineAlignmentScan(), HashSet()
        self._pairs, self._read_error = 0, ""

    def observe(self, pairs: Iterable[Pair], notify: Callable[[int], None]) -> Iterator[Pair]:
        """The same pairs, counted, up to where they cannot be read."""
        line = 0
        for chunk in chunked(self._readable(pairs), CHUNK):
            hashes = hash_pairs(chunk)
            new = self._distinct.add_new(hashes.pair)
            for place, side in enumerate(self._sides):
                side.add((pair[place] for pair in chunk), hashes[place][new])
            for pair in chunk:
                line += 1
                self.sample.offer(NumberedPair(line, pair))
                self._alignment.add(pair)
            notify(line)
            yield from chunk

    def _readable(self, pairs: Iterable[Pair]) -> Iterator[Pair]:
        try:
            for pair in pairs:
                self._pairs += 1
                yield pair
        except CorpusError as error:
            if not self._pairs:
                raise
            self._read_error = str(error)

    def result(self, cleaning: CleaningReport) -> SplitReport:
        """The report, after all pairs were observed."""
        source, target = self._sides
        again = self._pairs - len(self._distinct)
        repeats = DuplicateCounts(again, len(source.repeated), len(target.repeated))
        sides, alignment = (source.result(), target.result()), self._alignment.result()
        return SplitReport(self._pairs, *sides, cleaning, repeats, alignment, self._read_error)
