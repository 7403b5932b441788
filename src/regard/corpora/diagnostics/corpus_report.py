"""A corpus -> its numbers, gathered as its pairs go by: what a person should know before training.

What stays in memory is a few hashes for each pair, and some pairs as a sample.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

from regard.corpora.cleaning.pair_filters import CHUNK, CleaningReport, CleaningSettings, clean
from regard.corpora.corpus import Corpus, Pair, SplitName
from regard.corpora.dedup import Hashes, HashSet
from regard.corpora.diagnostics.misalignment import LineAlignment, LineAlignmentScan
from regard.corpora.diagnostics.near_leaks import NearLeak, find_near_leaks
from regard.corpora.diagnostics.noise_report import (
    NO_NOISE,
    NOISE_SAMPLE,
    NoiseRate,
    NoiseReport,
    NumberedPair,
    measure_noise,
)
from regard.corpora.diagnostics.split_overlap import (
    SentenceHashes,
    SplitOverlap,
    compare_splits,
    hash_pairs,
)
from regard.corpora.diagnostics.surface_checks import CheckCount, SurfaceCounter
from regard.corpora.splits import HELD_OUT, SplitSettings, split_corpus
from regard.errors import CorpusError
from regard.iterate import chunked
from regard.text.word_units import count_units

T = TypeVar("T")
ProgressCallback = Callable[[str, int], None]
"""Is told what is being done, and with how many pairs so far."""


class LengthStatistics(NamedTuple):
    """How long the lines of a text are."""

    total: int
    mean: float
    median: int
    most: int
    """95% of the lines are no longer."""
    longest: int


class SideReport(NamedTuple):
    """One side of a split."""

    words: LengthStatistics
    """As spaces divide them."""
    characters: LengthStatistics
    surface: Mapping[str, CheckCount]


class DuplicateCounts(NamedTuple):
    """Sentences that come more than once, in any case and spacing."""

    pairs: int
    """Pairs that came before."""
    sources: int
    """Sources that have several translations."""
    targets: int
    """Targets that translate several sources."""


@dataclass(frozen=True)
class SplitReport:
    """What one pass over a split found."""

    pairs: int
    source: SideReport
    target: SideReport
    cleaning: CleaningReport
    """What cleaning would drop; only training pairs are cleaned for training."""
    repeats: DuplicateCounts
    alignment: LineAlignment
    read_error: str
    """Why not all of it could be read; empty where it could."""


@dataclass(frozen=True)
class CorpusReport:
    """All that was found in a corpus; `findings.judge` says what it means."""

    name: str
    languages: tuple[str, str]
    splits: Mapping[SplitName, SplitReport]
    """The splits that the corpus comes with."""
    cut: Mapping[SplitName, int]
    """Those that training would cut from its training pairs, and how many pairs of them."""
    notes: tuple[str, ...]
    """What cutting them says."""
    split_error: str
    """Why they cannot be cut; empty where they can."""
    overlap: SplitOverlap
    sample: tuple[Pair, ...] = field(repr=False)
    """Some of the training pairs that cleaning keeps, chosen by a seed."""
    noise: NoiseReport = NO_NOISE
    """What a sample of training pairs shows."""
    near_leaks: tuple[NearLeak, ...] = ()
    file_starts: tuple[tuple[str, int], ...] = ()
    """The files that train is read from, and how many pairs come before each; empty for one."""

    def place(self, split: SplitName, line: int) -> str:
        """Where a line of a split, counted from 1 over all of its files, is to be found."""
        begun = [one for one in self.file_starts if one[1] < line] if split == "train" else []
        return f"line {line - begun[-1][1]:,} of {begun[-1][0]}" if begun else f"line {line:,}"

    def to_json(self) -> dict[str, Any]:
        """The numbers, as JSON can hold them."""
        return {
            "name": self.name,
            "languages": list(self.languages),
            "splits": {name: _split_json(report) for name, report in self.splits.items()},
            "cut": dict(self.cut),
            "leaks": [leak._asdict() for leak in self.overlap.leaks],
            "leaking_pairs": self.overlap.leaking_pairs,
            "coverage": [one._asdict() for one in self.overlap.coverage],
            "near_leaks": [one._asdict() for one in self.near_leaks],
            "suspects": _suspects_json(self.noise),
        }


def analyze_corpus(
    corpus: Corpus,
    cleaning: CleaningSettings,
    split: SplitSettings,
    *,
    choose_leaks: bool = False,
    sample: int = 0,
    seed: int = 1,
    tell: ProgressCallback = lambda doing, pairs: None,
) -> CorpusReport:
    """Read the splits of a corpus, each once for itself and training once more beside the others.

    `choose_leaks` has the rule for leaks follow the corpus: `overlap.by` then says which it is.
    `sample` training pairs are kept, drawn by `seed`. Pairs are read as they come: numbers of
    lines are those of the files.
    """
    chosen, numbered = _Reservoir[Pair](sample, seed), _Reservoir[NumberedPair](NOISE_SAMPLE, seed)
    file_starts: list[tuple[str, int]] = []
    reads = dict(corpus.splits)
    if corpus.parts:
        reads["train"] = partial(_read_parts, corpus, file_starts)
    splits = {
        name: _analyze_split(
            _GuardedReader(read(), partial(tell, f"reading {name}")),
            cleaning,
            corpus.languages,
            (chosen, numbered) if name == "train" else None,
        )
        for name, read in reads.items()
    }
    notes = corpus.read_report.sentences()
    tell("comparing the sides", 0)
    noise = _suspects(numbered.pairs, cleaning, corpus.languages, seed)
    whole, split_error, overlap, near = corpus, "", SplitOverlap(), tuple[NearLeak, ...]()
    if not any(report.read_error for report in splits.values()):
        tell("comparing the splits", 0)
        try:
            whole = split_corpus(corpus, split, notes, by=cleaning.leaks)
        except CorpusError as error:
            split_error = str(error)
        overlap = compare_splits(whole, None if choose_leaks else cleaning.leaks)
        near = find_near_leaks(whole) if cleaning.leaks_ignore == "spacing" else ()
    missing = [name for name in HELD_OUT if name in whole.splits and name not in splits]
    cut = {name: sum(1 for _ in whole.splits[name]()) for name in missing}
    return CorpusReport(
        corpus.name,
        corpus.languages,
        splits,
        cut,
        tuple(notes),
        split_error,
        overlap,
        tuple(chosen.pairs),
        noise,
        near,
        tuple(file_starts),
    )


def _read_parts(corpus: Corpus, file_starts: list[tuple[str, int]]) -> Iterator[Pair]:
    """The training pairs; `starts` is told where each file begins."""
    count = 0
    for part in corpus.parts:
        file_starts.append((part.name, count))
        for pair in part.read():
            count += 1
            yield pair


def _suspects(
    sample: list[NumberedPair], cleaning: CleaningSettings, languages: tuple[str, str], seed: int
) -> NoiseReport:
    """What looks wrong among those of the sample that cleaning would keep."""
    plain = cleaning.model_copy(update={"drop_wrong_language": False})
    kept = set(clean((one.pair for one in sample), plain, languages, CleaningReport()))
    fit = [one for one in sample if one.pair in kept]
    random.Random(seed).shuffle(fit)
    return measure_noise(fit)


class _GuardedReader:
    """The pairs of a split, up to where it cannot be read on: why is then in `broken`."""

    def __init__(self, pairs: Iterator[Pair], tell: Callable[[int], None]) -> None:
        self._pairs, self._tell = pairs, tell
        self.read_error = ""

    def __iter__(self) -> Iterator[Pair]:
        count = 0
        try:
            for count, pair in enumerate(self._pairs, 1):
                if count % CHUNK == 0:
                    self._tell(count)
                yield pair
        except CorpusError as error:
            if not count:
                raise
            self.read_error = str(error)


def _analyze_split(
    pairs: _GuardedReader,
    cleaning: CleaningSettings,
    languages: tuple[str, str],
    samples: "tuple[_Reservoir[Pair], _Reservoir[NumberedPair]] | None",
) -> SplitReport:
    """The report of a split, in one pass; `samples` get what cleaning keeps, and all pairs."""
    scan, report = _SplitCounter(), CleaningReport()
    seen = scan.observe(pairs)
    if samples is not None:
        seen = _numbered(seen, samples[1])
    for pair in clean(seen, cleaning, languages, report):
        if samples is not None:
            samples[0].offer(pair)
    return scan.result(report, pairs.read_error)


def _numbered(pairs: Iterable[Pair], sample: "_Reservoir[NumberedPair]") -> Iterator[Pair]:
    """The same pairs, each offered to `sample` with its line."""
    for line, pair in enumerate(pairs, 1):
        sample.offer(NumberedPair(line, pair))
        yield pair


class _SplitCounter:
    """Everything that is counted while the pairs of a split go by."""

    def __init__(self) -> None:
        self._words: tuple[Counter[int], Counter[int]] = (Counter(), Counter())
        self._characters: tuple[Counter[int], Counter[int]] = (Counter(), Counter())
        self._signs = SurfaceCounter(), SurfaceCounter()
        self._alignment, self._repeats = LineAlignmentScan(), _DuplicateCounter()
        self._pairs = 0

    def observe(self, pairs: Iterable[Pair]) -> Iterator[Pair]:
        """The same pairs, seen."""
        for chunk in chunked(pairs, CHUNK):
            self._pairs += len(chunk)
            self._repeats.add(hash_pairs(chunk))
            for pair in chunk:
                self._alignment.add(pair)
                for place, text in enumerate(pair):
                    self._words[place][count_units(text)] += 1
                    self._characters[place][len(text)] += 1
                    self._signs[place].add(text)
            yield from chunk

    def result(self, cleaning: CleaningReport, read_error: str) -> SplitReport:
        source, target = (
            SideReport(_length_statistics(words), _length_statistics(characters), surface.result())
            for words, characters, surface in zip(
                self._words, self._characters, self._signs, strict=True
            )
        )
        return SplitReport(
            self._pairs,
            source,
            target,
            cleaning,
            self._repeats.result(),
            self._alignment.result(),
            read_error,
        )


def _length_statistics(lengths: Counter[int]) -> LengthStatistics:
    """The statistics of lengths, given how many lines have each."""
    total = sum(length * lines for length, lines in lengths.items())
    lines = lengths.total()
    return LengthStatistics(
        total,
        total / max(1, lines),
        _quantile(lengths, 0.5),
        _quantile(lengths, 0.95),
        max(lengths, default=0),
    )


def _quantile(lengths: Counter[int], share: float) -> int:
    """The smallest length that at least `share` of the lines do not exceed."""
    reached, needed = 0, share * lengths.total()
    for length in sorted(lengths):
        reached += lengths[length]
        if reached >= needed:
            return length
    return 0


class _DuplicateCounter:
    """Counts sentences that come again, by their hashes."""

    def __init__(self) -> None:
        self._total = 0
        self._pairs = HashSet()
        self._sides = _PartnerCounter(), _PartnerCounter()

    def add(self, hashes: SentenceHashes) -> None:
        self._total += len(hashes.pair)
        new = self._pairs.add_new(hashes.pair)
        for partners, side in zip(self._sides, (hashes.source, hashes.target), strict=True):
            partners.add(side[new])

    def result(self) -> DuplicateCounts:
        source, target = (partners.several() for partners in self._sides)
        return DuplicateCounts(self._total - len(self._pairs), source, target)


class _PartnerCounter:
    """Which sentences of one side belong to several pairs."""

    def __init__(self) -> None:
        self._once, self._again = HashSet(), HashSet()

    def add(self, hashes: Hashes) -> None:
        """Take the sentences of pairs that are new."""
        self._again.add_new(hashes[~self._once.add_new(hashes)])

    def several(self) -> int:
        return len(self._again)


class _Reservoir(Generic[T]):
    """A fair choice of `size` from however many come (Vitter 1985, algorithm R)."""

    def __init__(self, size: int, seed: int) -> None:
        self.size, self.pairs = size, list[T]()
        self._rng, self._numbered = random.Random(seed), 0

    def offer(self, one: T) -> None:
        self._numbered += 1
        if len(self.pairs) < self.size:
            self.pairs.append(one)
            return
        place = self._rng.randrange(self._numbered)
        if place < self.size:
            self.pairs[place] = one


def _suspects_json(noise: NoiseReport) -> dict[str, Any]:
    plain = asdict(noise)
    return {
        name: value._asdict() if isinstance(value, NoiseRate) else value
        for name, value in plain.items()
    }


def _split_json(report: SplitReport) -> dict[str, Any]:
    sides = {"source": report.source, "target": report.target}
    return {
        "pairs": report.pairs,
        "broken": report.read_error,
        **{
            name: {
                "words": side.words._asdict(),
                "characters": side.characters._asdict(),
                "signs": {sign: shown._asdict() for sign, shown in side.surface.items()},
            }
            for name, side in sides.items()
        },
        "cleaning": report.cleaning.to_json(),
        "repeats": report.repeats._asdict(),
        "alignment": {
            **asdict(report.alignment),
            "stretches": [stretch._asdict() for stretch in report.alignment.stretches],
        },
    }
