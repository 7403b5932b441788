"""A recipe -> a trained model: all the folders, wired."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import islice
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple, Protocol

import torch

from regard.atomic_io import write_atomic
from regard.batching.prefetch import PositionedBatch, collate_stream, held_out_batches
from regard.batching.prefetch_worker import start_then_hand_over
from regard.batching.sampler import (
    SampledPairs,
    Shard,
    StreamPosition,
    sample_batches,
    sample_segmentations,
    within_max_tokens,
)
from regard.corpora.token_store import TokenStore
from regard.decoding.batch_search import SearchMember, search_many
from regard.decoding.constraints.length_limits import TruncationReport, report_truncation
from regard.decoding.settings import BeamSettings, DecodingSettings, RuleSettings
from regard.errors import CorpusError, RunError, SettingsError, TrainingError
from regard.evaluation.bleu_tokenizer import EvaluationSettings, choose_tokenizer
from regard.evaluation.metrics import MetricName, check_available
from regard.evaluation.perplexity import perplexity
from regard.evaluation.scores import ScoreSettings, score
from regard.manifest import check_file
from regard.models.contracts import AnyModel
from regard.recipes.auto_choices import (
    TokenFacts,
    collect_text_facts,
    resolve,
    resolve_text,
    training_hardware,
)
from regard.recipes.auto_settings import SettingChoice
from regard.recipes.prepared_data import Data, prepare_data, prepare_store, prepare_tokenizers
from regard.recipes.recipe import Recipe
from regard.recipes.refinement_stage import refinement_objective, refinement_training_settings
from regard.recipes.run_folder import COMPARISON_PLAN_FILE, RunFolder, new_model
from regard.text.build import TextSettings, Tokenizers
from regard.training.checkpoints import last_progress, load_weights
from regard.training.gpu.cuda_graph_step import require_cuda_graphs
from regard.training.loop import (
    BatchesFrom,
    Reporter,
    StopRequested,
    TrainingSettings,
    TrainingTask,
    Validate,
    fit,
    is_finished,
)
from regard.training.loss import batch_loss
from regard.training.progress import Progress
from regard.training.refinement import RefinementSettings
from regard.training.step import LossFn

CPU = torch.device("cpu")
FIXED_GROUPS = ("corpus", "text", "model")
"""Groups of settings that stay what they are once a run has checkpoints."""
MAX_BATCH_WORKERS = {"bpe": 4, "unigram": 8}
"""Processes that cut batches: one takes 5 ms for 4,096 positions by BPE-dropout, and more beside
others, where a fast GPU takes 3 for a step of a small model; by a unigram model it takes 53."""
VALIDATION_BATCH_TOKENS = 8192
"""Positions that validation looks at together."""


class TrainingInputs(NamedTuple):
    """All that a recipe's model is trained with."""

    data: Data
    tokenizers: Tokenizers
    train: TokenStore
    valid: TokenStore
    too_long: int
    """Training pairs left out for having more tokens than `training.max_tokens`."""
    recipe: Recipe
    """What is trained: all that said `auto` is chosen."""
    choices: tuple[SettingChoice, ...]
    """What was chosen, and why."""
    cut: TruncationReport
    """What the limits on answers would cost perfect answers to the training pairs."""


class TrainingReporter(Reporter, Protocol):
    """Shows a person how it goes, from the first file read."""

    def prepared(self, prepared: TrainingInputs, model: AnyModel) -> None: ...
    def refining(self, steps: int) -> None: ...


def prepare(
    recipe: Recipe,
    folder: RunFolder,
    reporter: Reporter,
    *,
    device: torch.device = CPU,
    all_pairs: int | None = None,
) -> TrainingInputs:
    """Data, tokenizers and tokens of a recipe in `folder`, made where they are not there yet.

    What the recipe leaves open is chosen on the way, for training on `device`. `all_pairs` are
    those of the whole corpus, where the recipe's is a sample of it.
    """
    data = prepare_data(recipe, folder, reporter.noted)
    choices = [one for one in data.choices if one.setting in recipe.auto]
    recipe = recipe.with_choices(data.choices)
    facts = None
    if recipe.auto:
        facts = collect_text_facts(data.read("train"))
        facts = facts.scaled_by((all_pairs or facts.pairs) / max(1, facts.pairs))
        recipe, chosen = resolve_text(recipe, facts)
        choices += chosen
    tokenizers = prepare_tokenizers(recipe, data, folder, reporter.noted)
    train = prepare_store(data, "train", tokenizers, reporter.noted)
    valid = prepare_store(data, "valid", tokenizers, reporter.noted)
    lengths = train.lengths()
    fitting = within_max_tokens(lengths, recipe.training.max_tokens)
    if not fitting.any():
        raise CorpusError(
            f"none of the {len(train)} training pairs has at most {recipe.training.max_tokens} "
            "tokens on both sides; raise training.max_tokens"
        )
    sides = lengths.source[fitting], lengths.target[fitting]
    if facts is not None:
        recipe, chosen = resolve(recipe, TokenFacts(facts, *sides, training_hardware(device)))
        choices += chosen
    too_long = len(train) - int(fitting.sum())
    cut = report_truncation(*sides, recipe.decoding.rules)
    return TrainingInputs(data, tokenizers, train, valid, too_long, recipe, tuple(choices), cut)


def train(
    recipe: Recipe,
    folder: RunFolder,
    *,
    device: torch.device,
    reporter: TrainingReporter,
    stop_requested: StopRequested,
) -> Progress:
    """Train the recipe's model in `folder`, from where it stands; nobody else may train there.

    Where the recipe asks for refinement, that is a second stage in a folder of its own. It takes
    the first one's last weights up, so that the first is over for good once the second has begun.
    """
    if (folder.path / COMPARISON_PLAN_FILE).exists():
        raise RunError(f"{folder.path}: holds a comparison; train in another folder with --out")
    if recipe.training.capture is True:
        require_cuda_graphs(device)  # before a corpus is read, which may take an hour
    with folder.locked():
        recipe = _with_saved_values(recipe, folder)
        saved = _check_resumable(recipe, folder)
        folder.mark_unfinished()
        folder.save_recipe(recipe)
        prepared = prepare(recipe, folder, reporter, device=device)
        recipe = _with_bleu_tokenizer(prepared.recipe, saved, prepared.data, reporter)
        folder.save_recipe(recipe)  # before the first checkpoint: who resumes chooses nothing anew
        settings = recipe.training
        torch.manual_seed(settings.seed)
        model = new_model(recipe, prepared.tokenizers).to(device)
        _check_max_positions(model, prepared, settings.max_tokens)
        reporter.prepared(prepared, model)
        if settings.schedule.warmup > settings.steps:
            reporter.noted(warmup_warning(settings))
        stages = _Stages(recipe, folder, prepared, model, reporter, stop_requested)
        progress = last_progress(folder.path) if folder.refined.has_checkpoints() else None
        if progress is None or recipe.refinement is None:
            progress = stages.train()
        if recipe.refinement is not None and not stop_requested():
            stages.refine(recipe.refinement)
        return progress


@dataclass(frozen=True)
class _Stages:
    """The stages of a run's training, and what they share."""

    recipe: Recipe
    folder: RunFolder
    prepared: TrainingInputs
    model: AnyModel
    reporter: TrainingReporter
    stop_requested: StopRequested

    def train(self) -> Progress:
        """Learn what the references say."""
        settings = self.recipe.training
        return self._fit(build_loss(settings), settings, self.folder.path)

    def refine(self, refinement: RefinementSettings) -> None:
        """Go on from the weights that training ended with; the best become the run's model."""
        self.reporter.refining(refinement.steps)
        first = self.folder.refined.path / "weights" / "first.safetensors"
        if not self.folder.refined.has_checkpoints():
            check_file(self.folder.weights("model"))
            write_atomic(first, self.folder.weights("model").read_bytes())
        self.model.load_state_dict(load_weights(first))
        settings = refinement_training_settings(self.recipe.training, refinement)
        torch.manual_seed(settings.seed)
        tokenize = self.recipe.evaluation.tokenize
        assert tokenize != "auto"  # `train` has chosen
        loss = refinement_objective(refinement, self.prepared.tokenizers.target, tokenize)
        progress = self._fit(loss, settings, self.folder.refined.path, validate_first=True)
        if self.stop_requested():
            return
        best = self.folder.refined.weights("model").read_bytes()
        write_atomic(self.folder.weights("model"), best)
        if progress.best[0][1] == 0:
            self.reporter.noted(
                "refinement never raised the GLEU of the validation pairs: the model keeps the "
                "weights that training ended with"
            )

    def _fit(
        self,
        loss: LossFn,
        settings: TrainingSettings,
        folder: Path,
        *,
        validate_first: bool = False,
    ) -> Progress:
        where = next(self.model.parameters()).device
        batches = build_batches(self.recipe, self.prepared, settings, where)
        return fit(
            self.model,
            TrainingTask(batches, loss, build_validation(self.recipe, self.prepared)),
            settings,
            folder=folder,
            width=self.recipe.model.width,
            reporter=self.reporter,
            stop_requested=self.stop_requested,
            validate_first=validate_first,
        )


def build_batches(
    recipe: Recipe, prepared: TrainingInputs, settings: TrainingSettings, device: torch.device
) -> BatchesFrom:
    """What a model on `device` learns from, from any position on."""
    draw = partial(
        sample_batches,
        prepared.train,
        budget=settings.batch_tokens,
        seed=settings.seed,
        max_tokens=settings.max_tokens,
    )
    if recipe.text.sampling:
        # To cut at random is so much work that this process would wait for itself.
        cut = partial(draw, sample_segmentation=partial(sample_segmentations, prepared.tokenizers))
        draw = partial(_draw_in_workers, cut, _num_batch_workers(device, recipe.text))
    return partial(_collated_from, draw)


def build_loss(settings: TrainingSettings) -> LossFn:
    """How wrong a model is, as the settings have it."""
    return partial(batch_loss, smoothing=settings.label_smoothing, consistency=settings.consistency)


def warmup_warning(settings: TrainingSettings) -> str:
    """What to say of a warm-up that training does not reach the end of."""
    return (
        f"the warm-up of {settings.schedule.warmup:,} steps is longer than the {settings.steps:,} "
        "steps of training: the learning rate never reaches its peak; lower "
        "training.schedule.warmup, to a tenth of the steps or so"
    )


def _with_saved_values(recipe: Recipe, folder: RunFolder) -> Recipe:
    """The recipe with what was chosen when the run in `folder` was begun, where it says `auto`."""
    return (
        recipe.with_choices_of(folder.load_recipe())
        if recipe.auto and folder.has_checkpoints()
        else recipe
    )


def _check_resumable(recipe: Recipe, folder: RunFolder) -> Recipe | None:
    """The recipe of the run in `folder`, if it has begun; an error if it learned something else.

    Only how it learns may change.
    """
    if not folder.has_checkpoints():
        return None
    saved = folder.load_recipe()
    for group in FIXED_GROUPS:
        if getattr(saved, group) != getattr(recipe, group):
            raise SettingsError(
                f"{folder.path}: its run was begun with another {group}, which cannot change any "
                "more; train a new run in another folder with --out"
            )
    if folder.refined.has_checkpoints() and saved.training != recipe.training:
        raise SettingsError(
            f"{folder.path}: its refinement has begun with the weights that training ended with, "
            f"and training cannot change any more; delete {folder.refined.path} to train on"
        )
    if saved.training != recipe.training:
        _check_changed_stage(folder, saved.training, recipe.training, "training")
    old, new = saved.refinement, recipe.refinement
    if old is not None and new is not None and old != new:
        stages = (
            refinement_training_settings(saved.training, old),
            refinement_training_settings(recipe.training, new),
        )
        _check_changed_stage(folder.refined, *stages, "refinement")
    before, now = saved.evaluation.tokenize, recipe.evaluation.tokenize
    if "auto" not in (before, now) and before != now:
        raise SettingsError(
            f"{folder.path}: its weights are chosen by scores under evaluation.tokenize {before}, "
            f"to which those under {now} do not compare; leave it, or train a new run with --out"
        )
    return saved


def _check_changed_stage(
    folder: RunFolder, before: TrainingSettings, after: TrainingSettings, group: str
) -> None:
    """An error if settings of a stage were changed that would do nothing, or undo what was done."""
    progress = last_progress(folder.path)
    if progress is None:
        return
    if after.steps < progress.step:
        raise SettingsError(
            f"{folder.path}: {progress.step:,} steps of its {group} are done, and cannot become "
            f"{after.steps:,}; give {group}.steps={progress.step} or more"
        )
    if is_finished(progress, before) and is_finished(progress, after):
        raise SettingsError(
            f"{folder.path}: its {group} ended after {progress.step:,} steps, and other settings "
            f"would do nothing; to go on raise {group}.steps, and its patience if that ended it"
        )


def _with_bleu_tokenizer(
    recipe: Recipe, saved: Recipe | None, data: Data, reporter: Reporter
) -> Recipe:
    """The recipe with the tokenizer that its run is scored with, from first to last.

    What `auto` chooses depends on what is installed; a run that has begun keeps its choice.
    """
    wanted = recipe.evaluation.tokenize
    if wanted == "auto" and saved is not None:
        wanted = saved.evaluation.tokenize
    if wanted == "auto":
        references = [pair.target for pair in data.read("valid")]
        wanted, why = choose_tokenizer(data.languages[1], references)
        if why:
            reporter.noted(f"BLEU, GLEU and TER are counted with tok:{wanted}, chosen by {why}")
    check_available(wanted)
    return recipe.model_copy(update={"evaluation": EvaluationSettings(tokenize=wanted)})


def _check_max_positions(model: AnyModel, prepared: TrainingInputs, max_tokens: int) -> None:
    """An error if a sentence is longer than a model with learned positions can take."""
    if model.max_length is None:
        return
    train, valid = prepared.train.lengths(), prepared.valid.lengths()
    fitting = within_max_tokens(train, max_tokens)
    sides = [side[fitting] for side in train] + list(valid)
    longest = max(int(side.max(initial=0)) for side in sides) + 1  # with EOS or BOS
    if longest > model.max_length:
        raise SettingsError(
            f"a sentence has {longest} tokens, and the model has positions for {model.max_length}: "
            "raise model.max_positions, or lower training.max_tokens"
        )


def _collated_from(
    draw: Callable[[StreamPosition], Iterator[SampledPairs]], start: StreamPosition
) -> Iterator[PositionedBatch]:
    return collate_stream(draw(start))


def _num_batch_workers(device: torch.device, text: TextSettings) -> int:
    """How many processes are to cut batches for a model on `device`.

    On a CPU a step takes far longer than to cut a batch, and wants the cores for itself.
    """
    if device.type == "cpu":
        return 1
    sampled = [side.kind for side in (text.source, text.target) if side and side.sampling]
    return min(
        max(MAX_BATCH_WORKERS[kind] for kind in sampled), max(1, torch.get_num_threads() // 2)
    )


def _draw_in_workers(
    draw: Callable[..., Iterator[SampledPairs]], num_workers: int, start: StreamPosition
) -> Iterator[SampledPairs]:
    """The same pairs, drawn in turn by other processes, and here until they are ready."""
    others = [partial(draw, shard=Shard(number, num_workers)) for number in range(num_workers)]
    return start_then_hand_over(draw, others, start, attrgetter("next_position"), _worker_died)


def _worker_died(status: int) -> TrainingError:
    return TrainingError(
        f"the process that prepares batches ended with status {status}; was it killed, or the "
        "memory full? Go on with --resume"
    )


def greedy_search(rules: RuleSettings) -> DecodingSettings:
    """How validation decodes: quickly; the recipe's own search is for the final scores."""
    limits = {name: value for name, value in rules if name.startswith("max_length")}
    return DecodingSettings(beam=BeamSettings(size=1), rules=RuleSettings(**limits))


def build_validation(recipe: Recipe, prepared: TrainingInputs) -> Validate:
    """A function that scores a model: its loss on all held-out pairs, its text on some."""
    source, target = prepared.tokenizers
    pairs = list(islice(prepared.data.read("valid"), recipe.training.validation.sentences))
    ids = source.encode([pair.source for pair in pairs])
    references = [pair.target for pair in pairs]
    search = greedy_search(recipe.decoding.rules)
    metrics: tuple[MetricName, ...] = ("bleu", "chrf", "gleu", "exact")
    wanted = ScoreSettings(
        metrics=metrics,
        tokenize=recipe.evaluation.tokenize,
        language=prepared.data.languages[1],
        resamples=0,
        warn=False,  # it would at each validation
    )

    def validate(model: AnyModel) -> Mapping[str, float]:
        measured = perplexity(
            model, held_out_batches(prepared.valid, budget=VALIDATION_BATCH_TOKENS)
        )
        answers = search_many([SearchMember(model, ids)], search, budget=VALIDATION_BATCH_TOKENS)
        texts = [target.decode(best[0].tokens) for best in answers]
        scores = zip(wanted.metrics, score(texts, references, wanted), strict=True)
        numbers = {"loss": measured.loss, "perplexity": measured.value}
        return numbers | {name: one.value for name, one in scores}

    return validate
