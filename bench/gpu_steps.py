"""Whole steps of training on a GPU: the base model beside Hugging Face's, captured and not.

Every function is a stage of `train_gpu`: it yields facts, each at once when it is known.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from bench.paper import BASE, TOKENS, hours_at
from bench.peers.contract import ModelShape, PeerConfig
from bench.peers.regard_model import build_fresh_model
from bench.peers.training_loop import SMOOTHING, PeerTrainer, wait_for_device
from bench.stages import Records
from bench.synthetic_batches import MEAN, synthetic_batches
from regard.batching.shape_buckets import ShapeBuckets
from regard.kernels import dispatch
from regard.kernels.cuda_graphs import CudaGraphs, EagerReplay
from regard.models.build import FAMILIES
from regard.models.contracts import AnyModel
from regard.training.expert_load import ExpertLoad
from regard.training.gpu.cuda_graph_step import CudaGraphStep
from regard.training.loss import batch_loss
from regard.training.optimizer import OptimizerSettings, build_optimizer
from regard.training.step import EagerStep, StepContext, TrainingStep
from regard.types import Batch

CUDA = torch.device("cuda")
RATE = 1e-4
WARM, TIMED = 6, 24


class Work(NamedTuple):
    """A model, and what it learns from."""

    shape: ModelShape
    tokens: int
    """Positions a side of a batch."""
    mean: float = MEAN
    """Tokens of a sentence."""

    def batches(self, count: int) -> list[Batch]:
        return synthetic_batches(count, self.tokens, self.shape.vocabulary, mean=self.mean)

    def flops(self, batch: Batch) -> float:
        """Of a step on a batch, forward and backward: the products, those of attention included."""
        d, f = self.shape.width, self.shape.feed_forward
        encoders, decoders = self.shape.encoder_layers, self.shape.decoder_layers
        source, target = (x.mask.sum(1).double() for x in (batch.source, batch.target))
        # keys and values of the source belong to the decoder, but are as many as source tokens
        weights = (encoders * (4 * d * d + 2 * d * f) + decoders * 2 * d * d) * source.sum()
        weights += (decoders * (6 * d * d + 2 * d * f) + d * self.shape.vocabulary) * target.sum()
        pairs = encoders * source * source + decoders * (target * target / 2 + source * target)
        return float(6 * weights + 12 * d * pairs.sum())


LARGE = Work(BASE, TOKENS)
SMALL = Work(ModelShape(), 4096, 14.0)
"""As Multi30k's sentences are."""


Learner = Callable[[Batch], Tensor]
"""Learns from a batch, and answers with its loss, which nobody has waited for."""


def timed(step: Learner, work: Work, given: list[Batch], *, rehearsals: int = 0) -> dict[str, Any]:
    """Tokens a second of some steps, after others that are not counted.

    The `rehearsals` are of all batches: whoever keeps something for each shape has it then.
    """
    began = time.perf_counter()
    for batch in given * rehearsals + given[:WARM]:
        last = step(batch)
    wait_for_device(CUDA)
    warm = time.perf_counter() - began
    torch.cuda.reset_peak_memory_stats()
    rounds = []
    for _ in range(3):
        began = time.perf_counter()
        for batch in given[WARM:]:
            last = step(batch)
        asked = time.perf_counter() - began
        wait_for_device(CUDA)
        rounds.append(time.perf_counter() - began)
    spent, tokens = sorted(rounds)[1], sum(batch.num_tokens for batch in given[WARM:])
    flops = sum(work.flops(batch) for batch in given[WARM:])
    return {
        "tokens_per_second": tokens / spent,
        "all_rounds": [tokens / one for one in rounds],
        "ms_a_step": 1e3 * spent / (len(given) - WARM),
        "host_ms_a_step": 1e3 * asked / (len(given) - WARM),
        "tflops": flops / spent / 1e12,
        "warm_up_seconds": warm,
        "gibibytes": torch.cuda.max_memory_allocated() / 2**30,
        "loss": float(last),
    }


def setup(*, compiled: bool) -> PeerConfig:
    return PeerConfig("bfloat16", device=CUDA.type, compiled=compiled)


def ours(
    work: Work,
    *,
    compiled: Literal["nothing", "model", "loss"] = "nothing",
    without: tuple[str, ...] = (),
) -> PeerTrainer:
    """Our model, without some of the kernels; what is compiled of it may include the loss."""
    dispatch.disabled.update(without)
    torch.manual_seed(1)
    model = build_fresh_model(work.shape).to(CUDA)

    def loss(batch: Batch) -> Tensor:
        return batch_loss(model, batch, SMOOTHING).loss / batch.num_tokens

    if compiled == "model":  # and not the loss, which is made in chunks then
        model.training_features = torch.compile(model.training_features, dynamic=True)  # type: ignore[method-assign]
    return PeerTrainer(model, loss, setup(compiled=compiled == "loss"))


def theirs(work: Work, *, compiled: bool) -> PeerTrainer:
    """Hugging Face's model, padded, with the same loss of the same positions."""
    torch.manual_seed(1)
    peer = import_module("bench.peers.hugging_face")
    stepper: PeerTrainer = peer.open_trainer(work.shape, setup(compiled=compiled))
    return stepper


def profile() -> Records:
    """Which kernels the time of a captured step goes to."""
    _, work = captured_step(LARGE, graphs=True)
    learn, given = CapturedLearner(work), LARGE.batches(4)
    for batch in given * 2:
        learn(batch)
    wait_for_device(CUDA)
    activities = [torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as seen:
        for batch in given:
            learn(batch)
        wait_for_device(CUDA)
    events = sorted(seen.key_averages(), key=lambda event: -event.self_device_time_total)
    total = sum(event.self_device_time_total for event in events)
    launches = sum(event.count for event in events if event.self_device_time_total)
    yield {"kernels_ms_a_step": total / 4e3, "launches_a_step": launches / 4}
    for event in events[:40]:
        share = event.self_device_time_total / total
        yield {
            "kernel": event.key[:100],
            "share": round(share, 4),
            "ms": event.self_device_time_total / 4e3,
            "calls": event.count / 4,
        }


def captured_step(
    work: Work = SMALL, *, graphs: bool, dropout: float = 0.1, without: tuple[str, ...] = ()
) -> tuple[AnyModel, CudaGraphStep]:
    """A model, and what teaches it, without some of the kernels."""
    dispatch.disabled.update(without)
    torch.manual_seed(1)
    model = build_fresh_model(replace(work.shape, dropout=dropout)).to(CUDA).train()
    return model, capture(learning_of(model), work.tokens, graphs=graphs)


def learning_of(model: AnyModel) -> StepContext:
    """What a step of ours works on."""
    settings = OptimizerSettings()
    return StepContext(
        model,
        partial(batch_loss, smoothing=SMOOTHING),
        build_optimizer(model, settings),
        None,
        torch.zeros(2, device=CUDA, dtype=torch.float64),
        ExpertLoad(),
        settings.clip_norm,
        partial(torch.autocast, CUDA.type, torch.bfloat16),
    )


def capture(context: StepContext, tokens: int, *, graphs: bool) -> CudaGraphStep:
    """A step of batches of at most `tokens` positions a side."""
    buckets = ShapeBuckets(tokens, context.model.supports_packing, context.model.max_length)
    return CudaGraphStep(context, buckets, CudaGraphs(CUDA) if graphs else EagerReplay(), _refuse)


def _refuse(note: str) -> None:
    """A step that is not captured after all is not what was to be measured."""
    raise RuntimeError(note)


class CapturedLearner:
    """What learns from a batch by graphs, and answers with its loss."""

    def __init__(self, work: CudaGraphStep) -> None:
        self.work = work

    def __call__(self, batch: Batch) -> Tensor:
        totals = self.work.context.totals.zero_()
        self.work([batch], lr=RATE, step=1)
        return totals[0] / batch.num_tokens

    def shapes(self, given: list[Batch]) -> dict[str, float]:
        """How many there were, and the share of both sides' tokens that is filler."""
        shapes = [self.work.buckets.shape(batch) for batch in given]
        filled = sum(shape.source_tokens + shape.target_tokens for shape in shapes)
        own = sum(len(batch.target_indices) + len(batch.source_indices) for batch in given)
        return {"shapes": len(self.work.replays), "filler": 1 - own / filled}


EVERY = ("varlen_attention", "fused_add_norm", "fused_linear_relu", "linear", "cross_entropy")
STEPS: dict[str, Callable[[Work], Learner]] = {
    "regard, captured": lambda work: CapturedLearner(captured_step(work, graphs=True)[1]),
    "regard, kernels": lambda work: ours(work).step,
    "regard, kernels, model compiled": lambda work: ours(work, compiled="model").step,
    "Hugging Face Marian, compiled": lambda work: theirs(work, compiled=True).step,
    "regard, kernels, all compiled": lambda work: ours(work, compiled="loss").step,
    "regard, captured, all but bend": lambda work: CapturedLearner(
        captured_step(work, graphs=True, without=("fused_linear_relu",))[1]
    ),
    "regard, captured, all but linear": lambda work: CapturedLearner(
        captured_step(work, graphs=True, without=("linear",))[1]
    ),
    "Hugging Face Marian": lambda work: theirs(work, compiled=False).step,
    "regard, no kernels": lambda work: ours(work, without=EVERY).step,
    "regard, no kernels, all compiled": lambda work: (
        ours(work, compiled="loss", without=EVERY).step
    ),
}
"""By the names that `train_gpu` has for them."""


def step(name: str) -> Records:
    """One contender's step on the base model's batches."""
    given, learner = LARGE.batches(WARM + TIMED), STEPS[name](LARGE)
    found = timed(learner, LARGE, given, rehearsals=2)
    more = learner.shapes(given) if isinstance(learner, CapturedLearner) else {}
    hours = hours_at(found["tokens_per_second"])
    yield {"who": name, **found, **more, "hours_for_the_papers_steps": hours}


def captured() -> Records:
    """A small model's step: plain, in buckets, captured; and whether capturing changes anything."""
    given = SMALL.batches(60)
    models = []
    for graphs in (False, True):
        model, work = captured_step(graphs=graphs, dropout=0.0)
        for number, batch in enumerate(given[:40]):
            work([batch], lr=RATE, step=number + 1)
        models.append([p.detach().clone() for p in model.parameters()])
        yield {"graphs": graphs, "shapes": len(work.replays), "loss": work.context.totals.tolist()}
    gaps = [
        ((a - b).norm() / a.norm().clamp(min=1e-9)).item() for a, b in zip(*models, strict=True)
    ]
    yield {"captured differs from plain by": max(gaps), "ok": max(gaps) < 1e-2}
    yield from _capture_times(given)
    yield from _capture_chance(given)


def _capture_times(given: list[Batch]) -> Records:
    yield {"who": "plain", **timed(ours(SMALL).step, SMALL, given)}
    for graphs in (False, True):
        _, work = captured_step(graphs=graphs)
        found = timed(CapturedLearner(work), SMALL, given, rehearsals=2)
        name = "captured" if graphs else "in buckets, not captured"
        yield {"who": name, **found, "shapes": len(work.replays)}


def families() -> Records:
    """A step of every family that can be captured, as its settings have it by default."""
    size, given = SMALL.shape.vocabulary, SMALL.batches(8)
    for family, (settings, construct) in FAMILIES.items():
        if family == "moe":  # its experts are counted by the host
            continue
        for way in ("plain", "captured"):
            torch.manual_seed(1)
            context = learning_of(construct(settings(), size, size).to(CUDA).train())
            taught: TrainingStep = EagerStep(context)
            if way == "captured":
                taught = capture(context, SMALL.tokens, graphs=True)
            try:
                found = _pace(taught, given)
            except Exception as error:
                yield {"family": family, "way": way, "failed": repr(error)[:300]}
            else:  # the losses of both ways differ by chance alone
                yield {"family": family, "way": way, **found, "loss": float(context.totals[0])}


def _pace(taught: TrainingStep, given: list[Batch]) -> dict[str, float]:
    """Milliseconds a step takes, and the seconds before it was known."""
    began = time.perf_counter()
    for _ in range(3):
        wait_for_device(CUDA)
        last = time.perf_counter()
        for batch in given:
            taught([batch], lr=RATE, step=1)
    wait_for_device(CUDA)
    now = time.perf_counter()
    return {"ms_a_step": 1e3 * (now - last) / len(given), "seconds": last - began}


def _capture_chance(given: list[Batch]) -> Records:
    """Whether dropout differs in each replay, and repeats from the same state of the generator."""
    _, work = captured_step(graphs=True)
    batch, seen = given[0], []
    for group in work.context.optimizer.param_groups:
        group["betas"], group["weight_decay"] = (0.9, 0.98), 0.0
    for _ in range(3):
        work([batch], lr=0.0, step=1)
    state = torch.cuda.get_rng_state()
    for turn in range(3):
        if turn == 2:
            torch.cuda.set_rng_state(state)
        work.context.totals.zero_()
        work([batch], lr=0.0, step=1)
        seen.append(work.context.totals[0].item())
    yield {"losses": seen, "ok": seen[0] != seen[1] and seen[0] == seen[2]}
