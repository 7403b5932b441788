"""A recipe -> a trained model: all the folders, wired."""

import math
from collections.abc import Callable, Mapping
from functools import partial
from itertools import islice
from typing import NamedTuple, Protocol

import torch

from regard.batching.stream import fits, held_out_batches, training_batches
from regard.corpora.store import TokenStore
from regard.decoding.beam import BeamSettings
from regard.decoding.many import Member, search_many
from regard.decoding.search import DecodingSettings
from regard.errors import CorpusError, SettingsError
from regard.evaluation.perplexity import perplexity
from regard.evaluation.scores import ScoreSettings, score
from regard.models.contracts import AnyModel
from regard.recipes.prepare import (
    Data,
    prepare_data,
    prepare_store,
    prepare_tokenizers,
    sample_pairs,
)
from regard.recipes.run_folder import RunFolder, new_model
from regard.recipes.schema import Recipe
from regard.text.build import Tokenizers
from regard.training.loop import (
    Progress,
    Reporter,
    StopAsked,
    Task,
    TrainingSettings,
    Validate,
    fit,
)
from regard.training.loss import Loss, batch_loss
from regard.types import Batch

GREEDY = DecodingSettings(beam=BeamSettings(size=1))
"""How validation decodes: quickly; the recipe's own search is for the final scores."""
FIXED = ("corpus", "text", "model")
"""Groups of settings that stay what they are once a run has checkpoints."""
VALIDATION_BUDGET = 8192
"""Positions that validation looks at together."""


class Prepared(NamedTuple):
    """All that a recipe's model is trained with."""

    data: Data
    tokenizers: Tokenizers
    train: TokenStore
    valid: TokenStore
    too_long: int
    """Training pairs left out for having more tokens than `training.max_tokens`."""


class TrainingReporter(Reporter, Protocol):
    """Shows a person how it goes, from the first file read."""

    def prepared(self, prepared: Prepared, model: AnyModel) -> None: ...


def prepare(recipe: Recipe, folder: RunFolder, reporter: Reporter) -> Prepared:
    """Data, tokenizers and tokens of a recipe in `folder`, made where they are not there yet."""
    data = prepare_data(recipe, folder, reporter.noted)
    tokenizers = prepare_tokenizers(recipe, data, folder, reporter.noted)
    train = prepare_store(
        data, "train", tokenizers, reporter.noted, with_text=recipe.text.sampling > 0
    )
    valid = prepare_store(data, "valid", tokenizers, reporter.noted)
    fitting = int(fits(train.lengths(), recipe.training.max_tokens).sum())
    if not fitting:
        raise CorpusError(
            f"none of the {len(train)} training pairs has at most {recipe.training.max_tokens} "
            "tokens on both sides; raise training.max_tokens"
        )
    return Prepared(data, tokenizers, train, valid, len(train) - fitting)


def train(
    recipe: Recipe,
    folder: RunFolder,
    *,
    device: torch.device,
    reporter: TrainingReporter,
    stop_asked: StopAsked,
) -> Progress:
    """Train the recipe's model in `folder`, from where it stands; nobody else may train there."""
    with folder.locked():
        _check_same(recipe, folder)
        folder.save_recipe(recipe)
        prepared = prepare(recipe, folder, reporter)
        settings = recipe.training
        torch.manual_seed(settings.seed)
        model = new_model(recipe, prepared.tokenizers).to(device)
        _check_fits(model, prepared, settings.max_tokens)
        reporter.prepared(prepared, model)
        batches = partial(
            training_batches,
            prepared.train,
            budget=settings.batch_tokens,
            seed=settings.seed,
            max_tokens=settings.max_tokens,
            sample=partial(sample_pairs, prepared.tokenizers) if recipe.text.sampling else None,
        )
        return fit(
            model,
            Task(batches, build_loss(settings), build_validation(recipe, prepared)),
            settings,
            folder=folder.path,
            width=recipe.model.width,
            reporter=reporter,
            stop_asked=stop_asked,
        )


def build_loss(settings: TrainingSettings) -> Callable[[AnyModel, Batch], Loss]:
    """How wrong a model is, as the settings have it."""
    return partial(batch_loss, smoothing=settings.label_smoothing, consistency=settings.consistency)


def _check_same(recipe: Recipe, folder: RunFolder) -> None:
    """An error if the run in `folder` learned something else: only how it learns may change."""
    if not folder.begun():
        return
    saved = folder.load_recipe()
    for group in FIXED:
        if getattr(saved, group) != getattr(recipe, group):
            raise SettingsError(
                f"{folder.path}: its run was begun with another {group}, which cannot change any "
                "more; train a new run in another folder with --out"
            )


def _check_fits(model: AnyModel, prepared: Prepared, max_tokens: int) -> None:
    """An error if a sentence is longer than a model with learned positions can take."""
    if model.limit is None:
        return
    train, valid = prepared.train.lengths(), prepared.valid.lengths()
    fitting = fits(train, max_tokens)
    sides = [side[fitting] for side in train] + list(valid)
    longest = max(int(side.max(initial=0)) for side in sides) + 1  # with EOS or BOS
    if longest > model.limit:
        raise SettingsError(
            f"a sentence has {longest} tokens, and the model has positions for {model.limit}: "
            "raise model.max_positions, or lower training.max_tokens"
        )


def build_validation(recipe: Recipe, prepared: Prepared) -> Validate:
    """A function that scores a model: its loss on all held-out pairs, its text on some."""
    source, target = prepared.tokenizers
    pairs = list(islice(prepared.data.read("valid"), recipe.training.validation.sentences))
    ids = source.encode([pair.source for pair in pairs])
    references = [pair.target for pair in pairs]
    wanted = ScoreSettings(metrics=("bleu", "chrf", "gleu", "exact"), resamples=0)

    def validate(model: AnyModel) -> Mapping[str, float]:
        measured = perplexity(model, held_out_batches(prepared.valid, budget=VALIDATION_BUDGET))
        answers = search_many([Member(model, ids)], GREEDY, budget=VALIDATION_BUDGET)
        texts = [target.decode(best[0].tokens) for best in answers]
        scores = zip(wanted.metrics, score(texts, references, wanted), strict=True)
        numbers = {"loss": math.log(measured.value), "perplexity": measured.value}
        return numbers | {name: one.value for name, one in scores}

    return validate
