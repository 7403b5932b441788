"""Data, tokenizers, tokens on disk and settings of a translator, each created once by `prepare`."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from regard.atomic_io import remove_file, write_atomic
from regard.batching.sampler import epoch_batches, length_sorted_batches, within_max_tokens
from regard.corpora.corpus import SplitName
from regard.corpora.pair_texts import PreparedData
from regard.corpora.token_store import (
    PairsFooter,
    TokenChunk,
    TokenStore,
    fingerprint,
    write_store,
)
from regard.decoding.constraints.length_limits import TruncationReport, report_truncation
from regard.errors import CorpusError
from regard.iterate import chunked
from regard.manifest import is_intact
from regard.settings import SettingChoice
from regard.tasks.contracts import Notify
from regard.tasks.translation.auto_choices import (
    Hardware,
    TokenFacts,
    collect_text_facts,
    resolve_text,
    resolve_tokens,
)
from regard.tasks.translation.prepared_data import prepare_data
from regard.tasks.translation.recipe import TranslationRecipe
from regard.tasks.translation.settings import TranslationTrainingSettings
from regard.text.build import (
    Texts,
    Tokenizers,
    extend_tokenizers,
    load_tokenizers,
    save_tokenizers,
    train_tokenizers,
)
from regard.text.preprocess import encode_sources

CPU = torch.device("cpu")
PAIRS_PER_CHUNK = 4096  # pairs tokenised at a time


def prepare_tokenizers(
    recipe: TranslationRecipe,
    data: PreparedData,
    run: Path,
    note: Notify,
    *,
    given: Tokenizers | None = None,
    resumed: bool = False,
) -> Tokenizers:
    """The run's tokenizers: loaded if they were made from the same data and settings, or if the run
    is `resumed`. Otherwise they are trained on the training pairs, or taken from the initial run
    (`given`) and possibly extended.
    """
    if resumed:
        return load_tokenizers(run)
    given_marks = [] if given is None else [one.fingerprint() for one in given]
    marks = *given_marks, *recipe.extension_marks()
    mark = fingerprint(data.digest, recipe.text.model_dump_json(), *marks).encode()
    saved = data.folder / "text.mark"
    if is_intact(saved) and saved.read_bytes() == mark:
        return load_tokenizers(run)
    tokenizers = given
    texts: tuple[Texts, Texts] = (
        lambda: (pair.source for pair in data.read("train")),
        lambda: (pair.target for pair in data.read("train")),
    )
    if tokenizers is None:
        note("learning the vocabulary")
        tokenizers = train_tokenizers(*texts, recipe.text)
    elif (count := recipe.added_pieces()) is not None:
        tokenizers = extend_tokenizers(tokenizers, *texts, count)
    save_tokenizers(tokenizers, run)
    write_atomic(saved, mark)
    return tokenizers


def prepare_store(
    data: PreparedData,
    split: SplitName,
    tokenizers: Tokenizers,
    note: Notify,
    *,
    max_source_tokens: int | None = None,
) -> TokenStore:
    """The tokens of a split, written unless they exist; a source keeps its last `max_source_tokens`
    tokens.
    """
    limit = [] if max_source_tokens is None else [str(max_source_tokens)]
    mark = fingerprint(data.digest, split, *(one.fingerprint() for one in tokenizers), *limit)
    path = data.folder / f"{split}.pairs"
    if not (is_intact(path) and PairsFooter.matches(path, mark)):
        note(f"tokenising {data.pairs[split]:,} pairs of {split}")
        chunks = (
            TokenChunk(
                encode_sources(
                    tokenizers.source, [pair.source for pair in chunk], max_source_tokens
                ),
                tokenizers.target.encode([pair.target for pair in chunk]),
            )
            for chunk in chunked(data.read(split), PAIRS_PER_CHUNK)
        )
        write_store(path, chunks, mark)
        remove_file(path.with_suffix(".arrow"))  # the store of an older run
    return TokenStore.open(path, mark)


class FittingPairs(NamedTuple):
    """The training pairs with at most `training.max_tokens` tokens on each side."""

    rows: NDArray[np.intp]  # their rows in the token store (N,)
    source: NDArray[np.int32]  # tokens of their sources (N,), without EOS
    target: NDArray[np.int32]

    def length_sorted(self, budget: int) -> list[NDArray[np.intp]]:
        """Rows of batches of at most `budget` positions, from the shortest pairs to the longest."""
        batches = length_sorted_batches(self.source + 1, self.target + 1, budget=budget)
        return [self.rows[batch] for batch in batches]

    def tokens_per_step(self, settings: TranslationTrainingSettings) -> float:
        """Target tokens of a training step, with EOS: the mean over the first epoch."""
        source, target, budget = self.source + 1, self.target + 1, settings.batch_tokens
        batches = epoch_batches(source, target, budget=budget, seed=settings.seed, epoch=0)
        return float(target.sum()) / len(batches) * settings.accumulate


class TrainingInputs(NamedTuple):
    """The inputs of a training: data, tokenizers, tokens and settings."""

    data: PreparedData
    tokenizers: Tokenizers
    train: TokenStore
    valid: TokenStore
    fitting: FittingPairs
    recipe: TranslationRecipe  # the recipe with a value for every setting that was `auto`
    choices: tuple[SettingChoice, ...]  # these values, and why they were chosen
    truncation: TruncationReport  # training targets that exceed the limits on translations

    @property
    def num_too_long(self) -> int:
        """Training pairs left out because they have more than `training.max_tokens` tokens."""
        return len(self.train) - len(self.fitting.rows)


def prepare(
    recipe: TranslationRecipe,
    run: Path,
    note: Notify,
    *,
    device: torch.device = CPU,
    given: Tokenizers | None = None,
    all_pairs: int | None = None,
    resumed: bool = False,
) -> TrainingInputs:
    """The data, tokenizers and tokens of a recipe in the folder `run`; existing ones are loaded.

    Settings that are `auto` are chosen for training on `device`. `given` are the tokenizers of the
    run that this one is initialised from. `all_pairs` is the size of the whole corpus if the
    recipe's corpus is a sample of it. A `resumed` run keeps what it has.
    """
    data = prepare_data(recipe, run / "data", note, resumed=resumed)
    choices = [choice for choice in data.choices if choice.setting in recipe.auto]
    recipe = recipe.with_choices(data.choices)
    facts = None
    if recipe.auto:
        facts = collect_text_facts(data.read("train"), data.languages[0])
        facts = facts.scaled_by((all_pairs or facts.pairs / data.copies) / max(1, facts.pairs))
        recipe, chosen = resolve_text(recipe, facts)
        choices += chosen
    tokenizers = prepare_tokenizers(recipe, data, run, note, given=given, resumed=resumed)
    limit = recipe.corpus.max_source_tokens
    train = prepare_store(data, "train", tokenizers, note, max_source_tokens=limit)
    valid = prepare_store(data, "valid", tokenizers, note, max_source_tokens=limit)
    lengths = train.lengths()
    rows = np.flatnonzero(within_max_tokens(lengths, recipe.training.max_tokens))
    source, target = lengths.source[rows], lengths.target[rows]
    if not len(rows):
        raise CorpusError(
            f"none of the {len(train)} training pairs has at most {recipe.training.max_tokens} "
            "tokens on both sides; raise training.max_tokens"
        )
    if facts is not None:
        machine = Hardware(device.type != "cpu", torch.get_num_threads())
        recipe, chosen = resolve_tokens(recipe, TokenFacts(facts, source, target, machine))
        choices += chosen
    truncation = report_truncation(source, target, recipe.decoding.rules)
    fitting = FittingPairs(rows, source, target)
    return TrainingInputs(
        data, tokenizers, train, valid, fitting, recipe, tuple(choices), truncation
    )
