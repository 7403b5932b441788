"""A corpus -> cleaned splits as text -> tokenizers -> tokens on disk, each made once."""

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import NamedTuple, Self

from pydantic import NonNegativeInt, model_validator

from regard.atomic_io import atomic_file, remove_file, write_atomic
from regard.corpora.build import CorpusSettings, build_corpus
from regard.corpora.cleaning.adaptive_rules import choose_leaks, choose_ratio, peek
from regard.corpora.cleaning.pair_filters import CleaningReport, Reason, clean
from regard.corpora.concatenation import concatenate_pairs
from regard.corpora.corpus import Corpus, CorpusPart, Pair, SplitName
from regard.corpora.corpus_weights import CorpusWeighting
from regard.corpora.dedup import HashSet
from regard.corpora.splits import MIN_PAIRS_TO_SPLIT, drop_leaks, split_corpus
from regard.corpora.token_store import (
    TokenChunk,
    TokenStore,
    fingerprint,
    store_matches,
    write_store,
)
from regard.errors import CorpusError, RunError
from regard.evaluation.pharaoh import format_pharaoh
from regard.iterate import chunked
from regard.json_files import load_json
from regard.manifest import check_file, is_intact
from regard.recipes.auto_settings import AUTO_CLEANING, SettingChoice
from regard.recipes.recipe import Recipe
from regard.recipes.run_folder import PREPARED_FILE, RunFolder
from regard.settings import Settings
from regard.text.build import Tokenizers, load_tokenizers, save_tokenizers, train_tokenizers

SPLITS: tuple[SplitName, ...] = ("train", "valid", "test")
RATIO_SETTING, LEAKS_SETTING = AUTO_CLEANING
PAIRS_PER_CHUNK = 4096
"""Pairs tokenised at a time."""

Notify = Callable[[str], None]
"""Tells a person what is being done."""


class SplitFiles(NamedTuple):
    """The two files of a split."""

    source: Path
    target: Path


class SavedReport(Settings):
    """What `CleaningReport.to_json` gives."""

    total: NonNegativeInt
    kept: NonNegativeInt
    dropped: dict[Reason, NonNegativeInt]
    examples: dict[Reason, list[Pair]]


class SavedData(Settings):
    """What `prepared.json` holds."""

    mark: str
    languages: tuple[str, str]
    pairs: dict[SplitName, NonNegativeInt]
    digest: str
    origin: str
    report: SavedReport
    choices: tuple[SettingChoice, ...] = ()

    @model_validator(mode="after")
    def _check(self) -> Self:
        if missing := [name for name in SPLITS if name not in self.pairs]:
            raise ValueError(f"it counts no pairs of {', '.join(missing)}")
        return self


@dataclass(frozen=True)
class Data:
    """The cleaned splits of a run."""

    folder: Path
    languages: tuple[str, str]
    pairs: dict[SplitName, int]
    digest: str
    """SHA-256 of the texts of all splits: the data hash of a receipt."""
    origin: str
    report: CleaningReport
    choices: tuple[SettingChoice, ...] = ()
    """How they were cleaned, where the recipe said `auto`."""

    def sides(self, split: SplitName) -> SplitFiles:
        return split_files(self.folder, split)

    def held_out(self) -> SplitName:
        """The split to score on: test, or valid where there is no test."""
        return "test" if self.pairs["test"] else "valid"

    def gold(self, split: SplitName) -> Path:
        """The gold alignments of a held-out split, if the corpus has them."""
        return gold_file(self.folder, split)

    def read(self, split: SplitName) -> Iterator[Pair]:
        """The pairs of a split."""
        return _read_pairs(self.sides(split))


def split_files(folder: Path, split: SplitName) -> SplitFiles:
    """Where the cleaned sides of a split lie."""
    return SplitFiles(folder / f"{split}.source.txt", folder / f"{split}.target.txt")


def gold_file(folder: Path, split: SplitName) -> Path:
    """Where the gold alignments of a split lie, if there are any."""
    return folder / f"{split}.gold.txt"


def prepare_data(recipe: Recipe, folder: RunFolder, note: Notify) -> Data:
    """Clean and split the recipe's corpus into `folder`, unless that was done before.

    A run that has been trained on its data goes on with them, whatever became of their files.
    """
    known = folder.data / PREPARED_FILE
    if known.exists() and (folder.has_checkpoints() or is_intact(known)):
        data, mark = load_data(folder), _read_saved(known).mark
        same = mark == _corpus_fingerprint(recipe.with_choices(data.choices).corpus)
        if same or folder.has_checkpoints():
            if not same:
                note(f"{recipe.corpus.label} changed; the run goes on with what it read before")
            return data
    note(f"reading and cleaning {recipe.corpus.label}")
    report, digest = CleaningReport(), hashlib.sha256()
    choices: list[SettingChoice] = []
    weighting = CorpusWeighting()
    corpus = _clean_corpus(recipe, folder.data, report, weighting, choices, note)
    held_out = {name: corpus.splits.get(name, _no_pairs) for name in SPLITS[1:]}
    counts: dict[SplitName, int] = {"train": 0}  # the first to be named, the last to be known
    for name, read in held_out.items():
        counts[name] = _write_pairs(split_files(folder.data, name), read(), digest)
    if LEAKS_SETTING in recipe.auto:
        chosen = choose_leaks(corpus.splits["train"](), _chain_splits(held_out.values()))
        choices.append(SettingChoice(LEAKS_SETTING, *chosen))
    settings = recipe.with_choices(choices).corpus
    train = drop_leaks(
        corpus.splits["train"](),
        _chain_splits(held_out.values()),
        report,
        settings.cleaning.leaks,
        settings.cleaning.leaks_ignore,
    )
    joined = concatenate_pairs(weighting.oversample(train), settings.join)
    counts["train"] = _write_pairs(split_files(folder.data, "train"), joined, digest)
    for remark in corpus.read_report.sentences():
        note(remark)
    if not counts["train"] or not counts["valid"]:
        raise CorpusError(
            f"{settings.label}: nothing left to learn from: {counts['train']} pairs to train "
            f"on and {counts['valid']} to validate with; {_dropped_text(report)}"
        )
    for file in cleaned_files(folder.data):
        remove_file(file)
    for name in held_out.keys() & corpus.gold.keys():
        lines = "".join(f"{format_pharaoh(gold)}\n" for gold in corpus.gold[name]())
        write_atomic(gold_file(folder.data, name), lines.encode())
    saved = SavedData(
        mark=_corpus_fingerprint(settings),
        languages=corpus.languages,
        pairs=counts,
        digest=digest.hexdigest(),
        origin=corpus.origin,
        report=SavedReport.model_validate(report.to_json()),
        choices=tuple(choices),
    )
    write_atomic(known, saved.model_dump_json(indent=1).encode())
    return load_data(folder)


def _clean_corpus(
    recipe: Recipe,
    folder: Path,
    report: CleaningReport,
    weighting: CorpusWeighting,
    choices: list[SettingChoice],
    note: Notify,
) -> Corpus:
    """The corpus with its training pairs cleaned, on disk, and the missing splits cut from them.

    The pairs are read from their origin once, which may be a pipe. Held-out splits that came with
    the corpus stay as they are: a score should not depend on what we find clean. What the recipe
    leaves open is chosen by the first pairs, and told to `choices`.
    """
    files, seen, corpus = cleaned_files(folder), HashSet(), build_corpus(recipe.corpus)
    parts = corpus.parts or [CorpusPart(corpus.name, 1.0, corpus.splits["train"])]
    peeked = [peek(part.read()) for part in parts]
    choices += choose_cleaning(recipe, [pair for one in peeked for pair in one.first])
    settings = recipe.with_choices(choices).corpus
    cleaned = (
        clean(one.pairs, settings.cleaning, corpus.languages, report, seen) for one in peeked
    )
    entering = (
        weighting.subsample(pairs, part.weight) for part, pairs in zip(parts, cleaned, strict=True)
    )
    _write_pairs(files, chain.from_iterable(entering))
    corpus = replace(
        corpus,
        splits={**corpus.splits, "train": partial(_read_pairs, files)},
        gold={name: read for name, read in corpus.gold.items() if name in SPLITS[1:]},
    )
    if report.kept < MIN_PAIRS_TO_SPLIT and report.dropped:
        raise CorpusError(
            f"{settings.label}: {report.kept} pairs are too few; {_dropped_text(report)}"
        )
    notes: list[str] = []
    whole = split_corpus(corpus, settings.split, notes, by=settings.cleaning.leaks)
    for message in notes:
        note(message)
    return whole


def choose_cleaning(recipe: Recipe, first: Sequence[Pair]) -> list[SettingChoice]:
    """What the first pairs of a corpus say of rules of cleaning that the recipe leaves open."""
    return (
        [SettingChoice(RATIO_SETTING, *choose_ratio(first))] if RATIO_SETTING in recipe.auto else []
    )


def _dropped_text(report: CleaningReport) -> str:
    """What became of pairs that are missing."""
    reasons = [f"{row.num_pairs:,} were dropped as {row.reason!r}" for row in report.rows()]
    return f"of {report.total:,}, {', '.join(reasons) or 'none were dropped'}: see corpus.cleaning"


def cleaned_files(folder: Path) -> SplitFiles:
    """Where the cleaned pairs lie until they are split."""
    return SplitFiles(folder / "cleaned.source.txt", folder / "cleaned.target.txt")


def load_data(folder: RunFolder) -> Data:
    """The data that a run was trained with."""
    known = folder.data / PREPARED_FILE
    if not known.exists():
        folder.load_recipe()  # an error of its own where there is no run at all
        raise RunError(f"{folder.path}: its data are gone: {known} is missing")
    saved = _read_saved(known)
    return Data(
        folder=folder.data,
        languages=saved.languages,
        pairs=saved.pairs,
        digest=saved.digest,
        origin=saved.origin,
        report=CleaningReport.from_json(saved.report.model_dump()),
        choices=saved.choices,
    )


def _read_saved(known: Path) -> SavedData:
    return load_json(known, SavedData, advice="train again in another folder")


def _corpus_fingerprint(settings: CorpusSettings) -> str:
    """A hash that changes when the settings or the files that they name do."""
    stats = []
    for files in settings.all_files():
        for name in (files.source, files.target, files.data):
            if name and name != "-" and os.path.exists(name):
                stat = os.stat(name)
                stats.append(f"{name} {stat.st_size} {stat.st_mtime_ns}")
    return fingerprint(settings.model_dump_json(), *stats)


def _no_pairs() -> Iterator[Pair]:
    return iter(())


def _chain_splits(splits: Iterable[Callable[[], Iterator[Pair]]]) -> Iterator[Pair]:
    return (pair for read in splits for pair in read())


def _read_pairs(files: SplitFiles) -> Iterator[Pair]:
    """Pairs of two files of our own writing."""
    for file in files:
        check_file(file)
    try:
        with files.source.open("rb") as sources, files.target.open("rb") as targets:
            for source, target in zip(sources, targets, strict=True):
                yield Pair(source.decode()[:-1], target.decode()[:-1])
    except (OSError, ValueError):
        raise RunError(
            f"{files.source} and {files.target.name}: gone, or no longer as they were written; "
            "train again in another folder"
        ) from None


def _write_pairs(
    files: SplitFiles, pairs: Iterable[Pair], digest: "hashlib._Hash | None" = None
) -> int:
    """Write pairs, without spaces at their ends, as two files; digest them and count them."""
    count = 0
    with atomic_file(files.source) as sources, atomic_file(files.target) as targets:
        for pair in pairs:
            count += 1
            lines = [f"{side.strip()}\n".encode() for side in pair]
            sources.write(lines[0])
            targets.write(lines[1])
            if digest is not None:
                digest.update(lines[0] + lines[1])
    return count


def prepare_tokenizers(recipe: Recipe, data: Data, folder: RunFolder, note: Notify) -> Tokenizers:
    """The run's tokenizers, learned from its training pairs unless that was done before."""
    mark, known = fingerprint(data.digest, recipe.text.model_dump_json()), folder.data / "text.mark"
    if folder.has_checkpoints() or (known.exists() and known.read_bytes() == mark.encode()):
        return load_tokenizers(folder.path)
    note("learning the vocabulary")
    sources = lambda: (pair.source for pair in data.read("train"))  # noqa: E731
    targets = lambda: (pair.target for pair in data.read("train"))  # noqa: E731
    tokenizers = train_tokenizers(sources, targets, recipe.text)
    save_tokenizers(tokenizers, folder.path)
    write_atomic(known, mark.encode())
    return tokenizers


def prepare_store(data: Data, split: SplitName, tokenizers: Tokenizers, note: Notify) -> TokenStore:
    """The tokens of a split, made unless they are there already."""
    marks = [tokenizer.fingerprint() for tokenizer in tokenizers]
    mark = fingerprint(data.digest, split, *marks)
    path = data.folder / f"{split}.arrow"
    if not (store_matches(path, mark) and is_intact(path)):
        note(f"tokenising {data.pairs[split]:,} pairs of {split}")
        write_store(path, _tokenized_chunks(data.read(split), tokenizers), mark)
    return TokenStore.open(path, mark)


def _tokenized_chunks(pairs: Iterator[Pair], tokenizers: Tokenizers) -> Iterator[TokenChunk]:
    for chunk in chunked(pairs, PAIRS_PER_CHUNK):
        yield TokenChunk(
            tokenizers.source.encode([pair.source for pair in chunk]),
            tokenizers.target.encode([pair.target for pair in chunk]),
        )
