"""A corpus -> cleaned splits as text in the data folder of a run, written once by
`prepare_data`.
"""

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path

from regard.atomic_io import remove_file, write_atomic
from regard.corpora.cleaning.adaptive_rules import RATIO_SAMPLE, choose_leaks, choose_ratio
from regard.corpora.cleaning.pair_filters import CleaningReport, clean
from regard.corpora.corpus import Corpus, CorpusPart, Pair, SplitName
from regard.corpora.dedup import HashSet
from regard.corpora.mixture import (
    CorpusWeighting,
    Mixture,
    concatenate_pairs,
    repeat_pairs,
)
from regard.corpora.pair_texts import (
    PREPARED_FILE,
    SPLITS,
    PairFiles,
    PreparedData,
    load_prepared,
    read_pairs,
    write_pairs,
)
from regard.corpora.pairs.build import CorpusSettings, build_corpus, files_label, mixed_parts
from regard.corpora.splits import MIN_PAIRS_TO_SPLIT, drop_leaks, split_corpus
from regard.corpora.token_store import fingerprint
from regard.errors import CorpusError
from regard.evaluation.pharaoh import format_pharaoh
from regard.iterate import peek
from regard.manifest import is_intact
from regard.settings import SettingChoice
from regard.tasks.contracts import Notify
from regard.tasks.translation.auto_settings import AUTO_CLEANING
from regard.tasks.translation.recipe import TranslationRecipe

RATIO_SETTING, LEAKS_SETTING = AUTO_CLEANING


def prepare_data(
    recipe: TranslationRecipe, folder: Path, note: Notify, *, resumed: bool = False
) -> PreparedData:
    """Clean and split the recipe's corpus into the data `folder` of a run, unless it exists there.

    A `resumed` run keeps its data, even if the corpus has changed.
    """
    kept = _kept_data(recipe, folder, note, resumed=resumed)
    if kept is not None:
        return kept
    note(f"reading and cleaning {recipe.corpus.corpus_label}")
    report, digest, weighting = CleaningReport(), hashlib.sha256(), CorpusWeighting()
    choices: list[SettingChoice] = []
    corpus = _clean_corpus(recipe, folder, report, weighting, choices, note)
    counts: dict[SplitName, int] = dict.fromkeys(SPLITS, 0)
    for name in SPLITS[1:]:
        pairs = corpus.splits[name]() if name in corpus.splits else iter(())
        counts[name] = write_pairs(PairFiles.of(folder, name), pairs, digest)
    if LEAKS_SETTING in recipe.auto:
        chosen = choose_leaks(corpus.splits["train"](), _read_held_out(corpus))
        choices.append(SettingChoice(LEAKS_SETTING, *chosen))
    settings = recipe.with_choices(choices).corpus
    train = drop_leaks(
        corpus.splits["train"](),
        _read_held_out(corpus),
        report,
        settings.cleaning.leaks,
        settings.cleaning.leaks_ignore,
    )
    joined = concatenate_pairs(weighting.oversample(train), settings.join)
    copies, joined = _mix_in(settings, corpus, joined, folder, report, note)
    counts["train"] = write_pairs(PairFiles.of(folder, "train"), joined, digest)
    for remark in corpus.read_report.messages():
        note(remark)
    if not counts["train"] or not counts["valid"]:
        raise CorpusError(
            f"{settings.corpus_label}: nothing left to learn from: {counts['train']} pairs to "
            f"train on and {counts['valid']} to validate with; {_dropped_text(report)}"
        )
    _remove_intermediate(folder, settings)
    data = PreparedData(
        mark=_corpus_fingerprint(settings),
        languages=corpus.languages,
        pairs=counts,
        digest=digest.hexdigest(),
        origin=_describe_origin(corpus, settings),
        report=report,
        choices=tuple(choices),
        copies=copies,
        folder=folder,
    )
    for name in corpus.gold.keys() & set(SPLITS[1:]):
        lines = "".join(f"{format_pharaoh(gold)}\n" for gold in corpus.gold[name]())
        write_atomic(data.gold(name), lines.encode())
    write_atomic(folder / PREPARED_FILE, data.model_dump_json(indent=1).encode())
    return load_prepared(folder)


def _kept_data(
    recipe: TranslationRecipe, folder: Path, note: Notify, *, resumed: bool
) -> PreparedData | None:
    """The data prepared earlier, if they are still valid."""
    saved = folder / PREPARED_FILE
    if not saved.exists() or not (resumed or is_intact(saved)):
        return None
    data = load_prepared(folder)
    same = data.mark == _corpus_fingerprint(recipe.with_choices(data.choices).corpus)
    if not same and resumed:
        note(
            f"{recipe.corpus.corpus_label} has changed; the run continues with the data it read "
            "before"
        )
    return data if same or resumed else None


def _remove_intermediate(folder: Path, settings: CorpusSettings) -> None:
    """Remove the files of pairs from which the splits were made."""
    for name in ("cleaned", "unmixed", *map(_mixed_name, range(len(settings.mix)))):
        for file in PairFiles.of(folder, name):
            remove_file(file)


def _describe_origin(corpus: Corpus, settings: CorpusSettings) -> str:
    """Where the pairs come from, including those that are mixed in."""
    mixed = (f"{files.share:.0%} {files_label(files)}" for files in settings.mix)
    return f"{corpus.origin} Mixed in: {', '.join(mixed)}." if settings.mix else corpus.origin


def _mixed_name(number: int) -> str:
    return f"mixed-{number}"


def _mix_in(
    settings: CorpusSettings,
    corpus: Corpus,
    train: Iterator[Pair],
    folder: Path,
    report: CleaningReport,
    note: Notify,
) -> tuple[int, Iterator[Pair]]:
    """How often each training pair of the corpus is used, and all pairs including those of `mix`,
    which are cleaned in the same way. All are first written to disk, because shares depend on the
    numbers of pairs.
    """
    if not settings.mix:
        return 1, train
    own, cleaning = PairFiles.of(folder, "unmixed"), settings.cleaning
    count = write_pairs(own, train)
    parts = mixed_parts(settings, corpus)
    files = [PairFiles.of(folder, _mixed_name(number)) for number in range(len(parts))]
    counts = []
    for part, place in zip(parts, files, strict=True):
        cleaned = clean(part.read(), cleaning, corpus.languages, report, HashSet())
        held_out = _read_held_out(corpus)
        kept = drop_leaks(cleaned, held_out, report, cleaning.leaks, cleaning.leaks_ignore)
        counts.append(write_pairs(place, kept))
        if not counts[-1]:
            raise CorpusError(
                f"corpus.mix: {part.name}: nothing to mix in; {_dropped_text(report)}"
            )
    copies, weights = Mixture.of(count, counts, [part.weight for part in parts])
    for part, number, weight in zip(parts, counts, weights, strict=True):
        note(
            f"mixing in {number * weight:,.0f} pairs of {part.name}, which has {number:,}: "
            f"{part.weight:.0%} of the training set, in which each of the {count:,} pairs of the "
            f"corpus is {copies} time{'s' if copies > 1 else ''}"
        )
    again = (read_pairs(own) for _ in range(copies))
    others = (
        repeat_pairs(read_pairs(place), weight)
        for place, weight in zip(files, weights, strict=True)
    )
    return copies, chain.from_iterable((*again, *others))


def _read_held_out(corpus: Corpus) -> Iterator[Pair]:
    held_out = (corpus.splits[name] for name in SPLITS[1:] if name in corpus.splits)
    return chain.from_iterable(read() for read in held_out)


def _clean_corpus(
    recipe: TranslationRecipe,
    folder: Path,
    report: CleaningReport,
    weighting: CorpusWeighting,
    choices: list[SettingChoice],
    note: Notify,
) -> Corpus:
    """The corpus with its training pairs cleaned on disk, and with missing splits taken from them.

    The pairs are read once, because their origin may be a pipe. Held-out splits of the corpus are
    not cleaned: scores should not depend on cleaning. Values chosen for `auto` go to `choices`.
    """
    files, seen = PairFiles.of(folder, "cleaned"), HashSet()
    corpus = build_corpus(recipe.corpus)
    parts = corpus.parts or [CorpusPart(corpus.name, 1.0, corpus.splits["train"])]
    peeked = [peek(part.read(), RATIO_SAMPLE) for part in parts]
    choices += choose_cleaning(recipe, [pair for first, _ in peeked for pair in first])
    settings = recipe.with_choices(choices).corpus
    weighted = (
        weighting.subsample(
            clean(pairs, settings.cleaning, corpus.languages, report, seen), part.weight
        )
        for part, (_, pairs) in zip(parts, peeked, strict=True)
    )
    write_pairs(files, chain.from_iterable(weighted))
    corpus = replace(
        corpus,
        splits={**corpus.splits, "train": partial(read_pairs, files)},
        gold={name: read for name, read in corpus.gold.items() if name in SPLITS[1:]},
    )
    if report.kept < MIN_PAIRS_TO_SPLIT and report.dropped:
        raise CorpusError(
            f"{settings.corpus_label}: {report.kept} pairs are too few; {_dropped_text(report)}"
        )
    notes: list[str] = []
    corpus = split_corpus(corpus, settings.split, notes, by=settings.cleaning.leaks)
    for message in notes:
        note(message)
    return corpus


def choose_cleaning(recipe: TranslationRecipe, first: Sequence[Pair]) -> list[SettingChoice]:
    """Choices for cleaning settings that are `auto`, from the first pairs of a corpus."""
    auto = RATIO_SETTING in recipe.auto
    return [SettingChoice(RATIO_SETTING, *choose_ratio(first))] if auto else []


def _dropped_text(report: CleaningReport) -> str:
    """The numbers of pairs that were dropped, by reason."""
    reasons = [f"{row.num_pairs:,} were dropped as {row.reason!r}" for row in report.rows()]
    return f"of {report.total:,}, {', '.join(reasons) or 'none were dropped'}: see corpus.cleaning"


def _corpus_fingerprint(settings: CorpusSettings) -> str:
    """A hash of the settings, and of the sizes and times of the files that they name."""
    stats = []
    for files in settings.all_files():
        for name in (files.source, files.target, files.data):
            if name and name != "-" and os.path.exists(name):
                stat = os.stat(name)
                stats.append(f"{name} {stat.st_size} {stat.st_mtime_ns}")
    # groups that older versions did not have are left out if empty: old fingerprints stay valid
    absent = {name for name in ("dialogue", "mix") if not getattr(settings, name)}
    return fingerprint(settings.model_dump_json(exclude=absent), *stats)
