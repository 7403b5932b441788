"""What `regard doctor` tells of corpora before and after they are damaged on purpose.

    python -m bench doctor [--pairs N] [--seed N]

Takes N training pairs of Tatoeba and Multi30k (from $REGARD_DATA) and of the generated `travel`, in
each of several ways damages a share of them that is known, and examines the corpus before and
after. The table has, for each corpus, the share that doctor tells of the clean pairs and of the
damaged ones; for leaks it is the share of test sentences that train is told to have.
"""

import argparse
import os
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, NamedTuple

from regard.comparison.measurements import today
from regard.corpora.corpus import Corpus, Pair
from regard.corpora.diagnostics.corpus_report import CorpusReport, analyze_corpus
from regard.corpora.pairs.build import CorpusSettings, build_corpus
from regard.corpora.splits import SplitSettings
from regard.engines.engine_tuning import processor_name

PAIRS, SEED = 10_000, 1
GERMAN, FRENCH = {"name": "tatoeba"}, {"name": "tatoeba", "tatoeba": {"pair": "eng-fra"}}
CORPORA: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "Tatoeba en-de": (GERMAN, FRENCH),
    "Tatoeba en-fr": (FRENCH, GERMAN),
    "Multi30k en-de": ({"name": "multi30k"}, FRENCH),
    "Multi30k en-fr": ({"name": "multi30k", "multi30k": {"pair": "en-fr"}}, GERMAN),
    "travel fr-en": ({"name": "travel"}, GERMAN),
}
"""Name -> the settings of a corpus, and of one whose targets are in a language foreign to it."""


@dataclass(frozen=True)
class CorpusSample:
    """Pairs of a corpus, held in memory."""

    train: Sequence[Pair]
    test: Sequence[Pair]
    foreign: Sequence[str]
    """Sentences in a language that neither side is in."""

    def places(self, share: float, rng: random.Random, fit: Callable[[Pair], bool]) -> list[int]:
        """So large a share of the training pairs, drawn from those that are fit."""
        among = [place for place, pair in enumerate(self.train) if fit(pair)]
        return rng.sample(among, min(len(among), round(share * len(self.train))))

    def changed(self, new: dict[int, Pair]) -> "CorpusSample":
        """The sample with other training pairs in some places."""
        return replace(self, train=[new.get(place, pair) for place, pair in enumerate(self.train)])


def exchange_sides(sample: CorpusSample, share: float, rng: random.Random) -> CorpusSample:
    """The sample with source and target exchanged in a share of its training pairs."""
    places = sample.places(share, rng, any)
    return sample.changed({place: Pair(*reversed(sample.train[place])) for place in places})


def replace_targets(sample: CorpusSample, share: float, rng: random.Random) -> CorpusSample:
    """The sample with targets in another language."""
    places = sample.places(share, rng, any)
    foreign = rng.sample(sample.foreign, len(places))
    return sample.changed(
        {
            place: sample.train[place]._replace(target=text)
            for place, text in zip(places, foreign, strict=True)
        }
    )


def pair_by_chance(sample: CorpusSample, share: float, rng: random.Random) -> CorpusSample:
    """The sample with the targets of a share of its pairs handed round among them."""
    places = sample.places(share, rng, any)
    return sample.changed(
        {
            place: sample.train[place]._replace(target=sample.train[other].target)
            for place, other in zip(places, [*places[1:], *places[:1]], strict=True)
        }
    )


def cut_targets(sample: CorpusSample, share: float, rng: random.Random) -> CorpusSample:
    """The sample with targets of which only the first half of the words is left."""
    new = {}
    for place in sample.places(share, rng, lambda pair: " " in pair.target.strip()):
        words = sample.train[place].target.split()
        cut = " ".join(words[: len(words) // 2])
        new[place] = sample.train[place]._replace(target=cut)
    return sample.changed(new)


def put_odd_spaces(sample: CorpusSample, share: float, rng: random.Random) -> CorpusSample:
    """The sample with sources in which a space is a no-break space."""
    new = {}
    for place in sample.places(share, rng, lambda pair: " " in pair.source):
        text = sample.train[place].source
        where = rng.choice([at for at, character in enumerate(text) if character == " "])
        odd = f"{text[:where]}\u00a0{text[where + 1 :]}"
        new[place] = sample.train[place]._replace(source=odd)
    return sample.changed(new)


def put_invisible(sample: CorpusSample, share: float, rng: random.Random) -> CorpusSample:
    """The sample with sources that hold a space of no width."""
    new = {}
    for place in sample.places(share, rng, lambda pair: len(pair.source) > 1):
        text = sample.train[place].source
        where = rng.randrange(1, len(text))
        new[place] = sample.train[place]._replace(source=f"{text[:where]}\u200b{text[where:]}")
    return sample.changed(new)


def leak(sample: CorpusSample, share: float, rng: random.Random) -> CorpusSample:
    """The sample with a share of its test pairs in train, in capitals and with another stop."""
    leaked = rng.sample(sample.test, round(share * len(sample.test)))
    changed = [Pair(*(f"{side.rstrip('.!?')}!!".upper() for side in pair)) for pair in leaked]
    return replace(sample, train=[*sample.train, *changed])


class DamageCase(NamedTuple):
    """A way to damage a corpus, and where an examination tells of it."""

    what: str
    share: float
    damage: Callable[[CorpusSample, float, random.Random], CorpusSample]
    told: Callable[[CorpusReport], float]


CASES = (
    DamageCase("sides exchanged", 0.05, exchange_sides, lambda found: found.noise.swapped.share),
    DamageCase(
        "targets in another language",
        0.03,
        replace_targets,
        lambda found: found.noise.target_language.share,
    ),
    DamageCase("paired by chance", 0.1, pair_by_chance, lambda found: found.noise.random.share),
    DamageCase("targets cut to half", 0.1, cut_targets, lambda found: found.noise.truncated.share),
    DamageCase(
        "sources with a no-break space",
        0.01,
        put_odd_spaces,
        lambda found: _sign(found, "odd spaces"),
    ),
    DamageCase(
        "sources with a zero-width space",
        0.01,
        put_invisible,
        lambda found: _sign(found, "invisible"),
    ),
    DamageCase(
        "test sentences in train, case and stop changed", 0.05, leak, lambda found: _near(found)
    ),
)


def _sign(found: CorpusReport, name: str) -> float:
    return found.splits["train"].source.surface[name].share


def _near(found: CorpusReport) -> float:
    test = next(one for one in found.overlap.near_leaks if one.split == "test")
    return test.sources / test.total


def take(given: dict[str, Any], other: dict[str, Any], pairs: int, seed: int) -> CorpusSample:
    """Training pairs of a corpus drawn at random, its test pairs, and targets of another corpus."""
    corpus, rng = build_corpus(CorpusSettings(**given)), random.Random(seed)
    train, foreign = list(corpus.splits["train"]()), build_corpus(CorpusSettings(**other))
    return CorpusSample(
        rng.sample(train, min(pairs, len(train))),
        list(islice(corpus.splits["test"](), 1000)),
        [pair.target for pair in islice(foreign.splits["train"](), 100_000)],
    )


def look_at(sample: CorpusSample, settings: CorpusSettings) -> CorpusReport:
    """What doctor tells of the sample."""
    corpus = Corpus(
        "sample",
        build_corpus(settings).languages,
        {
            "train": lambda: iter(sample.train),
            "valid": lambda: iter(()),
            "test": lambda: iter(sample.test),
        },
    )
    return analyze_corpus(corpus, settings.cleaning, SplitSettings())


def measure(name: str, pairs: int, seed: int) -> list[str]:
    """For each case what is told of the corpus as it is, and once it is damaged."""
    given, other = CORPORA[name]
    sample, settings = take(given, other, pairs, seed), CorpusSettings(**given)
    clean, cells = look_at(sample, settings), []
    for case in CASES:
        damaged = look_at(case.damage(sample, case.share, random.Random(seed)), settings)
        cells.append(f"{case.told(clean):.2%} → {case.told(damaged):.2%}")
    return cells


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--pairs", type=int, default=PAIRS, help="training pairs of each corpus")
    parser.add_argument("--seed", type=int, default=SEED)
    asked = parser.parse_args()
    began = time.perf_counter()
    columns = [measure(name, asked.pairs, asked.seed) for name in CORPORA]
    print(
        f"{today()}, {processor_name()}, {os.cpu_count()} cores: what doctor tells of "
        f"{asked.pairs:,} pairs of each corpus,"
    )
    print(f"clean → damaged; {time.perf_counter() - began:.0f} seconds in all\n")
    print(f"| damage | of them | {' | '.join(CORPORA)} |")
    print("|---" * (2 + len(CORPORA)) + "|")
    for number, case in enumerate(CASES):
        cells = " | ".join(column[number] for column in columns)
        print(f"| {case.what} | {case.share:.0%} | {cells} |")
