"""The training loop: steps, metrics, validation, checkpoints."""

import math
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import chain, repeat
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from regard.batching.collate import PositionedBatch
from regard.batching.malloc_tuning import keep_freed_memory, limit_onednn_caches
from regard.batching.prefetch import prefetch
from regard.batching.sampler import Shard, StreamPosition
from regard.batching.shape_buckets import Buckets, ExactShapes
from regard.errors import RunError, SettingsError, TrainingError
from regard.kernels.cuda_graphs import CudaGraphs
from regard.layers.low_rank import add_low_rank_updates
from regard.models.contracts import AnyModel
from regard.training.checkpoints import (
    Checkpoint,
    Progress,
    average_weights,
    find_checkpoint,
    intact_weights,
    load_weights,
    read_checkpoint,
    rows_name,
    save_rows,
    save_weights,
    validated_weights_name,
    validated_weights_path,
)
from regard.training.distributed.ranks import ALONE, ModelWeights, Ranks
from regard.training.gpu.cuda_graph_step import CudaGraphStep, require_cuda_graphs
from regard.training.layer_groups import LayerGroups
from regard.training.loss import LossFn
from regard.training.metric_log import read_metrics
from regard.training.optimizer import learning_rate
from regard.training.records import FolderRecords, Records
from regard.training.settings import TrainingSettings
from regard.training.state import CarriedTensors, TrainingState
from regard.training.step import (
    EagerStep,
    ExpertLoad,
    StepContext,
    TrainingStep,
    count_labels,
    resolve_precision,
)

DIVERGED_LOSS = 700.0  # nats per token; a uniform guess among a million tokens has 14
PREFETCH_DEPTH = 16  # batches prepared before they are needed


class Reporter(Protocol):
    """Shows the progress of a training."""

    def logged(self, step: int, numbers: Mapping[str, float]) -> None: ...
    def validated(self, step: int, numbers: Mapping[str, float], *, best: bool) -> None: ...
    def noted(self, message: str) -> None: ...


BatchesFrom = Callable[[StreamPosition, Shard], Iterator[PositionedBatch]]
Validate = Callable[[Any], Mapping[str, float]]
"""A function from a model of the task to its validation scores."""
StopRequested = Callable[[], bool]


class Selection(NamedTuple):
    """The validation score that selects the best weights."""

    name: str
    lower_is_better: bool
    tie_breaker: str | None = None
    """The number that breaks ties: lower is better. None: the earlier validation wins."""


class SelectionScore(NamedTuple):
    """A validation score in the form that is compared: higher is better."""

    value: float
    tie_breaker: float = 0.0


class TrainingTask(NamedTuple):
    """What a task gives the loop: batches, loss and validation."""

    batches: BatchesFrom  # streams the training batches, or a part of them, from a position on
    loss: LossFn
    validate: Validate  # the scores of a model in evaluation mode
    selection: Selection = Selection("loss", lower_is_better=True)
    buckets: Buckets[Any] = ExactShapes()  # the shapes to which batches are padded for CUDA graphs
    has_perplexity: bool = True  # whether `Loss.nll` is a likelihood, whose perplexity is logged
    unit: str = "tokens"  # what the labels of a batch are, which the log counts
    validate_first: bool = False  # so that the initial weights are best until others are better
    carried: CarriedTensors = ()
    """What the loss keeps from step to step and changes in place; checkpoints include it."""
    new_weights: Collection[str] = ()
    """The names of parameters that are not from the run that this one is initialised from. Under
    LoRA they are trained themselves, while the others get low-rank updates."""


def fit(
    model: AnyModel,
    task: TrainingTask,
    settings: TrainingSettings,
    *,
    folder: Path,
    width: int,
    reporter: Reporter,
    stop_requested: StopRequested,
    ranks: Ranks = ALONE,
) -> Progress:
    """Train `model`, of `width`, in `folder`, from its newest checkpoint if there is one.

    If it is killed and called again, it ends with the same weights, bit for bit on a CPU with the
    same numbers of threads and ranks. Each of several `ranks` calls it in the same way, with its
    own model; N ranks do the same as one that accumulates N times as many batches.
    """
    if settings.fine_tuning.lora is not None:
        _check_not_averaged(settings)
        add_low_rank_updates(model, settings.fine_tuning.lora, task.new_weights)
    training = _Training(model, task, settings, folder, width, reporter, ranks)
    training.resume()
    stream = prefetch(task.batches(training.progress.position, ranks.part), PREFETCH_DEPTH)
    with closing(stream), keep_freed_memory():
        if task.validate_first and training.progress.step == 0:
            training.validate()
        while not is_finished(training.progress, settings):
            stops = training.update(stream, stop_requested=stop_requested())
            training.after_update()
            if stops:
                training.save()
                break
        else:
            training.finish()
    return training.progress


def is_finished(progress: Progress, settings: TrainingSettings) -> bool:
    """Whether training is over: no steps are left, or the patience has run out."""
    patience = settings.validation.patience
    gave_up = patience is not None and progress.stale >= patience
    return gave_up or progress.step >= settings.steps


def _check_not_averaged(settings: TrainingSettings) -> None:
    if settings.average > 1:
        raise SettingsError(
            f"training.average {settings.average}: the mean of low-rank updates (lora) does not "
            "have their rank; set training.average=1, or use training.moving_average"
        )


class _Training:
    """The state of a training, and its operations."""

    def __init__(
        self,
        model: AnyModel,
        task: TrainingTask,
        settings: TrainingSettings,
        folder: Path,
        width: int,
        reporter: Reporter,
        ranks: Ranks,
    ) -> None:
        self.model, self.settings, self.folder, self.width = model, settings, folder, width
        self.reporter, self.task, self.ranks = reporter, task, ranks
        ranks.broadcast_([parameter.detach() for parameter in model.parameters()])
        loss = torch.compile(task.loss, dynamic=True) if settings.compile else task.loss
        weights = ranks.shard(model, loss) if settings.sharded else ModelWeights(model, loss)
        if settings.sharded and not weights.sharded:
            reporter.noted("training.sharded: one device holds all weights; give --devices N")
        self.layers = LayerGroups(model, settings.fine_tuning)
        self.state = TrainingState(weights, self.layers, settings.optimizer, task.carried, ranks)
        triggered = settings.nonmonotone_average is not None
        self.triggered = self.state.average(decay=settings.moving_average, triggered=triggered)
        self.device = self.state.device
        self.precision = resolve_precision(settings.precision, self.device)
        self.progress = self._present(Progress())
        self.records = Records()
        self.last_time, self.logged_at, self.tokens = time.perf_counter(), 0.0, 0
        self.totals = torch.zeros(2, device=self.device, dtype=torch.float64)
        self.expert_load = ExpertLoad()
        self.step = self._build_step()

    def _present(self, progress: Progress) -> Progress:
        """The progress, with the precision, threads and ranks of this process."""
        s, threads = self.settings, torch.get_num_threads()
        batches = s.accumulate * self.ranks.count
        ranks, precision = self.ranks.count, self.precision
        return replace(progress, threads=threads, precision=precision, ranks=ranks, batches=batches)

    def _build_step(self) -> TrainingStep:
        s, weights, use_bf16 = self.settings, self.state.weights, self.precision == "bfloat16"
        if use_bf16 and self.device.type == "cpu":
            limit_onednn_caches()
        context = StepContext(
            self.model,
            weights.loss,
            self.state.optimizer,
            self.state.ema,
            self.totals,
            self.expert_load,
            s.optimizer.clip_norm,
            # Not a method: a reference cycle would keep the run's files open after its end.
            partial(torch.autocast, self.device.type, torch.bfloat16, enabled=use_bf16),
            self.ranks,
            (ALONE if weights.sharded else self.ranks).sum_gradients,
            s.seed if s.accumulate * self.ranks.count > 1 else None,
        )
        capture = self.device.type == "cuda" and not s.compile if s.capture == "auto" else s.capture
        if capture and (len(self.task.carried) > 1 or weights.sharded):
            memories = "each batch of a step carries its own memory"
            why = "the weights are sharded" if weights.sharded else memories
            self.reporter.noted(f"steps are not captured as graphs: {why}")
            capture = False
        if not capture:
            return EagerStep(context)
        require_cuda_graphs(self.device)
        capturer = CudaGraphs(self.device)
        return CudaGraphStep(context, self.task.buckets, capturer, self.reporter.noted)

    # -- checkpoints ------------------------------------------------------------------------

    def resume(self) -> None:
        """Restore the newest intact checkpoint, if there is one."""
        name = self.ranks.from_first(self._newest_checkpoint)
        if name is not None:
            self._restore(read_checkpoint(self.folder / "checkpoints" / name))
        if self.ranks.leads:
            self.records = FolderRecords(self.folder, -1 if name is None else self.progress.step)

    def _newest_checkpoint(self) -> str | None:
        """The file name of the newest intact checkpoint."""
        path, damaged = find_checkpoint(self.folder / "checkpoints")
        for one in damaged:
            self.reporter.noted(f"{one} is damaged; the checkpoint before it is used, if any")
        if path is None and (damaged or any(read_metrics(self.folder / "metrics.jsonl"))):
            lost = "all checkpoints are damaged" if damaged else "there are no checkpoints"
            self.reporter.noted(f"{self.folder}: {lost}: training starts over, from step 0")
        return None if path is None else path.name

    def _restore(self, checkpoint: Checkpoint) -> None:
        tensors, now = checkpoint.tensors, self._present(checkpoint.progress)
        for note in checkpoint.progress.resume_notes(now):
            self.reporter.noted(note)
        self.progress = now
        if (self.device.type == "cuda") != ("rng.cuda" in tensors):
            self.reporter.noted(
                f"resumed on another kind of device, {self.device.type}: "
                "the weights will differ from an uninterrupted run's"
            )
        self.logged_at = self.progress.seconds
        try:
            self.state.load(tensors)
            kept = self.state.load_carried(tensors)
        except (KeyError, RuntimeError, TypeError) as error:  # TypeError: of a generator's state
            raise RunError(
                f"{self.folder}: the checkpoint does not fit the model of the recipe ({error}); "
                "train in another folder"
            ) from None
        if not kept:
            self.reporter.noted(
                "the text is read in a different number of rows than before, "
                "starting with empty memories"
            )
        if self.triggered:
            self.triggered.start = self.progress.averaged_from or None

    def save(self) -> None:
        """Write a checkpoint to resume from, and remove weights that no checkpoint names."""
        self._check_finite()
        self._add_time()
        checkpoint = Checkpoint(self.state.tensors(), self.progress, self._save_rows())
        self.records.save_checkpoint(checkpoint, keep=self.settings.keep)

    def _save_rows(self) -> tuple[str, ...]:
        """Write each rank's rows of sharded tensors, and return the files of all ranks."""
        rows, step = self.state.rows(), self.progress.step
        if not rows:
            return ()
        digest = save_rows(self.folder / "checkpoints", step, rows)
        digests = self.ranks.gather_numbers([int(digit, 16) for digit in digest])
        return tuple(rows_name(step, "".join(f"{n:x}" for n in digits)) for digits in digests)

    # -- steps ------------------------------------------------------------------------------

    def update(self, stream: Iterator[PositionedBatch], *, stop_requested: bool) -> bool:
        """Take one step of the optimizer, over `accumulate` batches on each rank. Returns whether
        to stop training after it, which `stop_requested` says on any rank.
        """
        self.model.train()
        positioned = [next(stream) for _ in range(self.settings.accumulate)]
        batches, step = [one.batch for one in positioned], self.progress.step + 1
        own = [stop_requested, count_labels(batches), *positioned[-1].next_position]
        of_ranks = self.ranks.gather_numbers(own)  # once a step: each exchange takes time
        all_tokens = sum(numbers[1] for numbers in of_ranks)
        position = max(StreamPosition(*numbers[2:]) for numbers in of_ranks)
        if self.layers.freeze_for(step):
            self.step.forget_shapes()
        self.step(batches, tokens=all_tokens, lr=self._learning_rate(step), step=step)
        self.tokens += all_tokens
        self.progress = replace(self.progress, step=step, position=position)
        return any(numbers[0] for numbers in of_ranks)

    def _learning_rate(self, step: int) -> float:
        s, peak = self.settings, self.settings.optimizer.learning_rate
        return learning_rate(step, peak, s.schedule, width=self.width, steps=s.steps)

    def after_update(self) -> None:
        """Log, validate and save when due; only then is anything read from the device."""
        step, s = self.progress.step, self.settings
        if step % s.log_every == 0:
            self._log()
        if step % s.validation.every == 0:
            self.validate()
        if step % s.save_every == 0:
            self.save()

    def _log(self) -> None:
        self._check_finite()
        self._add_time()
        self.ranks.sum_([self.totals, *self.expert_load.shares()])
        loss, nll = (self.totals / self.tokens).tolist()
        numbers = {
            "loss": loss,
            **({"perplexity": math.exp(min(nll, 700))} if self.task.has_perplexity else {}),
            "learning_rate": self._learning_rate(self.progress.step),
            f"{self.task.unit}_per_second": self.tokens / (self.progress.seconds - self.logged_at),
            "epoch": self.progress.position.epoch,
            **self.expert_load.pop_metrics(),
        }
        self.logged_at = self.progress.seconds
        self.records.add_metrics("train", self.progress.step, numbers)
        self.reporter.logged(self.progress.step, numbers)
        self.totals.zero_()
        self.tokens = 0

    def _add_time(self) -> None:
        now = time.perf_counter()
        self.progress = replace(self.progress, seconds=self.progress.seconds + now - self.last_time)
        self.last_time = now

    def _check_finite(self) -> None:
        """Stop before a loss or a weight that is not a number is written to a file."""
        if not (self.totals.isfinite().all() and self.state.has_finite_weights()):
            raise self._divergence_error("the loss is not a number")

    def _divergence_error(self, what: str) -> TrainingError:
        return TrainingError(
            f"step {self.progress.step}: {what}: training has diverged. Earlier checkpoints are "
            "intact. Try a lower training.optimizer.learning_rate, a longer "
            "training.schedule.warmup, a training.optimizer.clip_norm of 1 or less, or "
            "training.precision float32"
        )

    # -- validation -------------------------------------------------------------------------

    def validate(self) -> None:
        """Score the weights, and keep them if they are among the best."""
        self._check_finite()
        self._add_time()
        step = self.progress.step
        with self.state.averaged() as model:
            numbers = self.ranks.from_first(lambda: self._scores(model))
            score, best = self._selection_score(numbers), self._best_scores()
            new_best = not best or score > best[0][0]
            ranked = sorted([*best, (score, step)], key=lambda one: (*(-x for x in one[0]), one[1]))
            kept = ranked[: self.settings.average]
            names = [validated_weights_name(step)] if (score, step) in kept else []
            for name in [*names, "model.safetensors"] if new_best else names:
                self.records.save_weights(name, model)
        stale = 0 if new_best else self.progress.stale + 1
        self.progress = replace(
            self.progress,
            best=tuple((score.value, step) for score, step in kept),
            tie_breakers=tuple(score.tie_breaker for score, _ in kept) if self._breaks_ties else (),
            validated=step,
            stale=stale,
        )
        self._trigger_average(score.value)
        self.records.add_metrics("valid", step, numbers)
        self.reporter.validated(step, numbers, best=new_best)
        self.last_time = time.perf_counter()

    def _trigger_average(self, value: float) -> None:
        """Begin to average after this step if its score is the first that no longer improves."""
        if self.triggered is None or self.triggered.start is not None:
            return
        step, history = self.progress.step, self.progress.history
        before = history[: -(self.settings.nonmonotone_average or 1)]
        if before and value < max(before):
            self.triggered.start = step
            self.progress = replace(self.progress, averaged_from=step, history=())
            self.reporter.noted(f"the weights are averaged from step {step:,} on")
        else:
            self.progress = replace(self.progress, history=(*history, value))

    def _scores(self, model: AnyModel) -> Mapping[str, float]:
        """The scores of a model. Raises an error if its training has diverged."""
        numbers = self.task.validate(model.eval())
        if not all(map(math.isfinite, numbers.values())):
            raise self._divergence_error("the loss on the validation data is not a number")
        if (loss := numbers.get("loss", 0.0)) > DIVERGED_LOSS:
            raise self._divergence_error(
                f"the loss on the validation data is {loss:.4g} nats a token"
            )
        return numbers

    def _selection_score(self, numbers: Mapping[str, float]) -> SelectionScore:
        """The score that selects the best weights."""
        name, lower_is_better, second = self.task.selection
        value = -numbers[name] if lower_is_better else numbers[name]
        return SelectionScore(value) if second is None else SelectionScore(value, -numbers[second])

    @property
    def _breaks_ties(self) -> bool:
        return self.task.selection.tie_breaker is not None

    def _best_scores(self) -> list[tuple[SelectionScore, int]]:
        """Score and step of the best validations, best first."""
        seconds = chain(self.progress.tie_breakers, repeat(0.0))  # old checkpoints have none
        pairs = zip(self.progress.best, seconds, strict=False)
        return [(SelectionScore(value, second), step) for (value, step), second in pairs]

    def finish(self) -> None:
        """Write the best, the last and the averaged weights, and the final weights of the run."""
        if self.progress.validated < self.progress.step:
            self.validate()
        self.save()
        if self.progress.step < self.settings.steps:
            self.reporter.noted(
                f"stopped after {self.progress.step:,} of {self.settings.steps:,} steps: "
                f"{self.progress.stale} validations brought no better {self.task.selection.name}"
            )
        with self.state.averaged() as model:
            self.records.save_weights("weights/last.safetensors", model)
        if self.ranks.leads:
            self._choose_weights()

    def _choose_weights(self) -> None:
        """Write the best and the averaged weights, and the final weights of the run."""
        weights = self.folder / "weights"
        best_files = [validated_weights_path(self.folder, step) for _, step in self.progress.best]
        kept = intact_weights(best_files, self.reporter.noted)
        if not kept:
            self.reporter.noted("none of the best weights is left; the last ones are used")
            kept = [weights / "last.safetensors"]
        best, average = load_weights(kept[0]), average_weights(kept)
        save_weights(weights / "best.safetensors", best)
        save_weights(weights / "average.safetensors", average)
        used = average if len(kept) == 1 or self._average_is_no_worse(average) else best
        save_weights(self.folder / "model.safetensors", used)

    def _average_is_no_worse(self, average: Mapping[str, Tensor]) -> bool:
        """Whether averaged weights score no worse than the best: early weights may spoil the
        average.
        """
        values = [average[name] for name in self.state.parameters]
        with self.state.weights.with_weights(values) as model:
            numbers = self._scores(model)
        self.records.add_metrics("average", self.progress.step, numbers)
        score, (best, _) = self._selection_score(numbers), self._best_scores()[0]
        by, helps = self.task.selection.name, score >= best
        chosen = "the average" if helps else "the best"
        tied = score.value == best.value and score != best
        why = f", by {self.task.selection.tie_breaker}" if tied else ""
        self.reporter.noted(
            f"the best {len(self.progress.best)} weights averaged: {by} {abs(score.value):.2f}, "
            f"the best alone {abs(best.value):.2f}; {chosen} is kept{why}"
        )
        return helps
