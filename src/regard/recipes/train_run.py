"""A recipe -> a trained model: checks, data, model, the training loop, and then refinement."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from itertools import compress, islice
from operator import attrgetter
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from regard.atomic_io import write_atomic
from regard.batching.collate import PositionedBatch, collate_stream, held_out_batches
from regard.batching.prefetch import start_then_hand_over
from regard.batching.sampler import (
    WHOLE_STREAM,
    SampledPairs,
    Shard,
    StreamPosition,
    sample_batches,
    sample_segmentations,
    within_max_tokens,
)
from regard.batching.shape_buckets import ShapeBuckets
from regard.corpora.corpus import Pair
from regard.decoding.batch_search import SearchMember, search, search_many
from regard.decoding.settings import BeamSettings, DecodingSettings, RuleSettings, SamplingSettings
from regard.errors import RunError, SettingsError, TrainingError
from regard.evaluation.bleu_tokenizer import BleuTokenizer, EvaluationSettings, choose_tokenizer
from regard.evaluation.metrics import VALIDATION_METRICS, MetricOptions, check_available, line_gleu
from regard.evaluation.perplexity import perplexity
from regard.evaluation.scores import ScoreSettings, score
from regard.manifest import check_file
from regard.models.contracts import AnyGenerator, AnyModel
from regard.recipes.prepared_data import Notify, PreparedData, TrainingInputs, prepare
from regard.recipes.recipe import Recipe
from regard.recipes.run_folder import (
    COMPARISON_PLAN_FILE,
    FIRST_WEIGHTS_FILE,
    RunFolder,
    new_model,
)
from regard.recipes.transfer.start_run import RunStart, resolve_start, token_row_names
from regard.tasks.translation_settings import TranslationTrainingSettings
from regard.text.preprocess import encode_sources
from regard.text.settings import TextSettings
from regard.text.tokenizer import Tokenizer
from regard.training.checkpoints import Progress, last_progress, load_weights
from regard.training.distributed.ranks import ALONE, Ranks
from regard.training.gpu.cuda_graph_step import require_cuda_graphs
from regard.training.layer_groups import FineTuningSettings
from regard.training.loop import (
    BatchesFrom,
    Reporter,
    StopRequested,
    TrainingTask,
    Validate,
    fit,
    is_finished,
)
from regard.training.loss import LossFn, batch_loss
from regard.training.optimizer import ScheduleSettings
from regard.training.refinement import RefinementSettings, RewardFn, refinement_loss
from regard.training.settings import TrainingSettings
from regard.training.weight_transfer import WeightTransfer
from regard.types import Hypothesis, Memory

FIXED_GROUPS = ("start", "corpus", "text", "model")
"""Groups of settings that cannot change once there are checkpoints."""
MAX_BATCH_WORKERS = {"bpe": 4, "unigram": 8}
"""Processes that sample segmentations for a GPU: 4,096 positions take 5 ms by BPE and 53 ms by the
unigram model, a small training step 3 ms.
"""
VALIDATION_BATCH_TOKENS = 8192  # positions in a batch of validation
NUM_SEEDS = 1 << 62
UNLIMITED_LENGTH = 1 << 30


class TrainingReporter(Reporter, Protocol):
    """Shows how a run goes, from the first file read."""

    def prepared(self, inputs: TrainingInputs, model: AnyGenerator) -> None: ...
    def refining(self, steps: int) -> None: ...
    def transferred(self, run: str, transfer: WeightTransfer) -> None: ...


def train(
    recipe: Recipe,
    folder: RunFolder,
    *,
    device: torch.device,
    reporter: TrainingReporter,
    stop_requested: StopRequested,
    ranks: Ranks = ALONE,
) -> Progress:
    """Train the recipe's model in `folder`, from its last checkpoint if there is one.

    Refinement is a second stage in its own folder; once it has begun, the first stage cannot go on.
    Each of several `ranks` calls it alike; rank 0 alone reads `recipe`, and writes.
    """
    if (folder.path / COMPARISON_PLAN_FILE).exists():
        raise RunError(f"{folder.path}: holds a comparison; train in another folder with --out")
    if recipe.training.capture is True:
        require_cuda_graphs(device)  # before a corpus is read, which may take an hour
    recipe = resolve_start(recipe)
    with folder.locked() if ranks.leads else nullcontext():
        inputs = ranks.made_by_first(
            lambda: _prepare(recipe, folder, device, reporter),
            lambda: prepare(folder.load_recipe(), folder, reporter.noted, device=device, keep=True),
        )
        recipe = inputs.recipe
        start = RunStart(recipe, folder) if recipe.start is not None else None
        settings = recipe.training
        torch.manual_seed(settings.seed)
        model = new_model(recipe, inputs.tokenizers).to(device)
        _check_max_positions(model, inputs, reporter.noted)
        reporter.prepared(inputs, model)
        if start is not None and recipe.start is not None:
            load = partial(start.load, model, token_row_names(inputs.tokenizers))
            taken = ranks.made_by_first(load, load)
            reporter.transferred(str(recipe.start.run), taken)
        if settings.schedule.warmup_steps > settings.steps:
            reporter.noted(warmup_warning(settings))
        stage = _Stage(inputs, model, reporter, stop_requested, ranks)
        refines = ranks.from_first(folder.refined.has_checkpoints)
        progress = last_progress(folder.path) if refines else None
        if progress is None or recipe.refinement is None:
            progress = stage.fit(recipe, build_loss(settings), folder)
        if recipe.refinement is not None and not stage.stops():
            _refine(recipe, folder, stage)
        if start is not None and ranks.leads and is_finished(progress, settings):
            start.save_adapter(inputs.data.origin, reporter.noted)
        return progress


def _prepare(
    recipe: Recipe, folder: RunFolder, device: torch.device, reporter: TrainingReporter
) -> TrainingInputs:
    """Data, tokenizers and every setting of a run, which are written into its folder."""
    if recipe.auto and folder.has_checkpoints():  # it keeps the values that it began with
        recipe = recipe.with_choices_of(folder.load_recipe())
    saved = _check_resumable(recipe, folder)
    folder.mark_unfinished()
    folder.save_recipe(recipe)
    inputs = prepare(recipe, folder, reporter.noted, device=device)
    recipe = _with_bleu_tokenizer(inputs.recipe, saved, inputs.data, reporter)
    folder.save_recipe(recipe)  # before the first checkpoint: resuming keeps all choices
    return inputs._replace(recipe=recipe)


class _Stage(NamedTuple):
    """What both stages of training share: training on references, and refinement."""

    inputs: TrainingInputs
    model: AnyGenerator
    reporter: TrainingReporter
    stop_requested: StopRequested
    ranks: Ranks

    def stops(self) -> bool:
        """Whether some rank has been asked to stop."""
        return self.ranks.any(self.stop_requested())

    def fit(
        self, recipe: Recipe, loss: LossFn, folder: RunFolder, *, validate_first: bool = False
    ) -> Progress:
        model, settings = self.model, recipe.training
        task = TrainingTask(
            build_batches(recipe, self.inputs, next(model.parameters()).device),
            loss,
            build_validation(recipe, self.inputs, max_tokens=position_limit(self.model)),
            settings.validation.selection,
            build_buckets(settings, model),
            validate_first=validate_first,
        )
        return fit(
            model,
            task,
            settings,
            folder=folder.path,
            width=recipe.model.width,
            reporter=self.reporter,
            stop_requested=self.stop_requested,
            ranks=self.ranks,
        )


def _refine(recipe: Recipe, folder: RunFolder, stage: _Stage) -> None:
    """Refine the weights that training ended with; the best ones become the run's model."""
    assert recipe.refinement is not None
    assert recipe.evaluation.tokenize != "auto"  # `train` has chosen
    stage.reporter.refining(recipe.refinement.steps)
    model_file = folder.weights("model")
    first = folder.refined.path / "weights" / FIRST_WEIGHTS_FILE

    def keep_first_weights() -> None:
        if not folder.refined.has_checkpoints():
            check_file(model_file)
            write_atomic(first, model_file.read_bytes())

    stage.ranks.from_first(keep_first_weights)
    stage.model.load_state_dict(load_weights(first))
    settings = refinement_training_settings(recipe.training, recipe.refinement)
    torch.manual_seed(settings.seed)
    loss = partial(
        refinement_loss,
        draw=partial(sample_translations, recipe.refinement),
        reward=gleu_reward(stage.inputs.tokenizers.target, recipe.evaluation.tokenize),
        likelihood=recipe.refinement.likelihood,
    )
    refined = recipe.model_copy(update={"training": settings})
    progress = stage.fit(refined, loss, folder.refined, validate_first=True)
    if stage.stops() or not stage.ranks.leads:
        return
    write_atomic(model_file, folder.refined.weights("model").read_bytes())
    if progress.best[0][1] == 0:
        stage.reporter.noted(
            "refinement never raised the GLEU of the validation pairs: the model keeps the "
            "weights that training ended with"
        )


def build_batches(recipe: Recipe, inputs: TrainingInputs, device: torch.device) -> BatchesFrom:
    """A function that streams the training batches of a model on `device` from any position on."""
    settings, sampled = recipe.training, recipe.text.sampling
    sample = partial(
        sample_batches,
        inputs.train,
        budget=settings.batch_tokens,
        seed=settings.seed,
        max_tokens=settings.max_tokens,
        sample_segmentation=partial(sample_segmentations, inputs.tokenizers) if sampled else None,
    )
    return partial(stream_batches, sample, _num_batch_workers(device, recipe.text))


def stream_batches(
    sample: Callable[..., Iterator[SampledPairs]],
    num_workers: int,
    start: StreamPosition,
    shard: Shard = WHOLE_STREAM,
) -> Iterator[PositionedBatch]:
    """Batches of a shard from `start` on; `num_workers` processes `sample` their pairs, or this one
    if it is 0.
    """
    if not num_workers:
        return collate_stream(sample(start, shard=shard))
    # Workers begin right after a batch of this shard: from there, its next is the last of `of`.
    from_there = Shard(shard.of - 1, shard.of)
    in_workers = [partial(sample, shard=one) for one in from_there.split(num_workers)]
    next_position = attrgetter("next_position")
    here = partial(sample, shard=shard)
    pairs = start_then_hand_over(here, in_workers, start, next_position, _worker_died)
    return collate_stream(pairs)


def _num_batch_workers(device: torch.device, text: TextSettings) -> int:
    """How many processes sample segmentations for a model on `device`; 0 if none are sampled.

    On a CPU one suffices: a training step takes far longer, and needs the cores.
    """
    sampled = [side.kind for side in (text.source, text.target) if side and side.sampling]
    if not sampled:
        return 0
    if device.type == "cpu":
        return 1
    limit = max(MAX_BATCH_WORKERS[kind] for kind in sampled)
    return min(limit, max(1, torch.get_num_threads() // 2))


def _worker_died(status: int) -> TrainingError:
    return TrainingError(
        f"the process that prepares batches ended with status {status}; was it killed, or the "
        "memory full? Go on with --resume"
    )


def build_buckets(settings: TranslationTrainingSettings, model: AnyModel) -> ShapeBuckets:
    """The shapes to which the batches of a model are padded for CUDA graphs."""
    return ShapeBuckets(settings.batch_tokens, model.supports_packing, model.max_length)


def build_loss(settings: TranslationTrainingSettings) -> LossFn:
    """The loss with the label smoothing and consistency of the settings."""
    return partial(batch_loss, smoothing=settings.label_smoothing, consistency=settings.consistency)


def warmup_warning(settings: TrainingSettings) -> str:
    """The warning for a warm-up that is longer than training."""
    return (
        f"the warm-up of {settings.schedule.warmup:,} steps is longer than the {settings.steps:,} "
        "steps of training: the learning rate never reaches its peak; lower "
        "training.schedule.warmup, to a tenth of the steps or so"
    )


def _check_resumable(recipe: Recipe, folder: RunFolder) -> Recipe | None:
    """The saved recipe of a run that has checkpoints, else None; an error if the new recipe cannot
    resume it.
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
        check_changed_stage(folder, saved.training, recipe.training, "training")
    old, new = saved.refinement, recipe.refinement
    if old is not None and new is not None and old != new:
        before = refinement_training_settings(saved.training, old)
        after = refinement_training_settings(recipe.training, new)
        check_changed_stage(folder.refined, before, after, "refinement")
    chosen, given = saved.evaluation.tokenize, recipe.evaluation.tokenize
    if "auto" not in (chosen, given) and chosen != given:
        raise SettingsError(
            f"{folder.path}: its weights are chosen by scores under evaluation.tokenize {chosen}, "
            f"to which those under {given} do not compare; leave it, or train a new run with --out"
        )
    return saved


def check_changed_stage(
    folder: RunFolder,
    before: TrainingSettings,
    after: TrainingSettings,
    group: str,
) -> None:
    """Raise an error if changed settings have no effect, or ask for fewer steps than are done."""
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
    recipe: Recipe, saved: Recipe | None, data: PreparedData, reporter: Reporter
) -> Recipe:
    """The recipe with the tokenizer of BLEU, GLEU and TER; a run that has begun keeps its own."""
    tokenize = recipe.evaluation.tokenize
    if tokenize == "auto" and saved is not None:
        tokenize = saved.evaluation.tokenize
    if tokenize == "auto":
        references = [pair.target for pair in data.read("valid")]
        tokenize, reason = choose_tokenizer(data.languages[1], references)
        if reason:
            reporter.noted(
                f"BLEU, GLEU and TER are counted with tok:{tokenize}, chosen by {reason}"
            )
    check_available(tokenize)
    return recipe.model_copy(update={"evaluation": EvaluationSettings(tokenize=tokenize)})


def position_limit(model: AnyGenerator) -> int | None:
    """The most tokens of a sentence that a model has positions for, without EOS or BOS; None: any
    number.
    """
    return None if model.max_length is None else model.max_length - 1


def _check_max_positions(model: AnyGenerator, inputs: TrainingInputs, note: Notify) -> None:
    """An error if a training sentence is longer than a model with learned positions allows;
    validation pairs that are too long are left out, and counted in a note.
    """
    limit = position_limit(model)
    if limit is None:
        return
    longest = max(int(side.max()) for side in (inputs.fitting.source, inputs.fitting.target))
    longest += 1  # with EOS or BOS
    if longest > limit + 1:
        raise SettingsError(
            f"a sentence has {longest} tokens, and the model has positions for {limit + 1}: "
            "raise model.max_positions, or lower training.max_tokens"
        )
    fit = within_max_tokens(inputs.valid.lengths(), limit)
    if not fit.any():
        raise SettingsError(
            f"none of the {len(fit)} validation pairs has at most {limit} tokens on "
            "both sides, for which the model has positions: raise model.max_positions, or give "
            "shorter ones with --valid"
        )
    if not fit.all():
        note(
            f"validation: left out: {len(fit) - fit.sum():,} of {len(fit):,} pairs, with more than "
            f"the {limit} tokens for which the model has positions"
        )


def greedy_search(rules: RuleSettings) -> DecodingSettings:
    """The search of validation: greedy; the recipe's own search is for the final scores."""
    limits = {name: value for name, value in rules if name.startswith("max_length")}
    return DecodingSettings(beam=BeamSettings(size=1), rules=RuleSettings(**limits))


def build_validation(
    recipe: Recipe, inputs: TrainingInputs, *, max_tokens: int | None = None
) -> Validate:
    """A function that scores a model: the loss on all validation pairs that have at most
    `max_tokens` on each side, metrics on some.
    """
    source, target = inputs.tokenizers
    read: Iterable[Pair] = inputs.data.read("valid")
    if max_tokens is not None:
        read = compress(read, within_max_tokens(inputs.valid.lengths(), max_tokens))
    pairs = list(islice(read, recipe.training.validation.sentences))
    limit = recipe.corpus.max_source_tokens
    ids = encode_sources(source, [pair.source for pair in pairs], limit)
    references = [pair.target for pair in pairs]
    decoding = greedy_search(recipe.decoding.rules)
    score_settings = ScoreSettings(
        metrics=VALIDATION_METRICS,
        tokenize=recipe.evaluation.tokenize,
        language=inputs.data.languages[1],
        resamples=0,
        warn=False,  # not at every validation
    )

    def validate(model: AnyGenerator) -> Mapping[str, float]:
        batches = held_out_batches(
            inputs.valid, budget=VALIDATION_BATCH_TOKENS, max_tokens=max_tokens
        )
        measured = perplexity(model, batches)
        answers = search_many([SearchMember(model, ids)], decoding, budget=VALIDATION_BATCH_TOKENS)
        texts = [target.decode(best[0].tokens) for best in answers]
        scores = zip(VALIDATION_METRICS, score(texts, references, score_settings), strict=True)
        numbers = {"loss": measured.loss, "perplexity": measured.value}
        return numbers | {name: metric.value for name, metric in scores}

    return validate


def sample_translations(
    settings: RefinementSettings, model: AnyGenerator, memory: Memory, lengths: Tensor
) -> list[list[Hypothesis]]:
    """Sampled translations of each of B sources; the seed comes from torch's generator."""
    decoding = DecodingSettings(
        n_best=settings.samples,
        sampling=SamplingSettings(seed=int(torch.randint(NUM_SEEDS, ()))),
        rules=RuleSettings(
            max_length=model.max_length or UNLIMITED_LENGTH,
            max_length_ratio=settings.max_length_ratio,  # of `lengths`: those of the references
            max_length_offset=0,
            allow_unknown=True,
            excluded="lost",
        ),
    )
    with torch.inference_mode():
        return search(model, model.start(memory), lengths, decoding)


def gleu_reward(target: Tokenizer, tokenize: BleuTokenizer) -> RewardFn:
    """Sentence GLEU of decoded text, as in validation: segmentations do not matter."""
    gleu = line_gleu(MetricOptions(tokenize))

    def reward(reference: Sequence[int], answers: Sequence[Sequence[int]]) -> list[float]:
        text = target.decode(reference)
        return [gleu(target.decode(answer), text) for answer in answers]

    return reward


def refinement_training_settings(
    training: TranslationTrainingSettings, settings: RefinementSettings
) -> TranslationTrainingSettings:
    """Settings of the training loop for refinement: those of `training`, with some replaced."""
    optimizer = training.optimizer.model_copy(update={"learning_rate": settings.learning_rate})
    validation = training.validation.model_copy(
        update={"every": settings.validate_every, "by": "gleu", "patience": settings.patience}
    )
    return training.model_copy(
        update={
            "steps": settings.steps,
            "batch_tokens": settings.batch_tokens,
            "accumulate": 1,
            "compile": False,  # a search cannot be compiled
            "capture": False,  # nor captured
            "optimizer": optimizer,
            "schedule": ScheduleSettings(shape="constant", warmup=settings.warmup),
            "fine_tuning": FineTuningSettings(),
            "validation": validation,
            "average": 1,
            "log_every": min(training.log_every, settings.validate_every),
            "save_every": settings.validate_every,
        }
    )
