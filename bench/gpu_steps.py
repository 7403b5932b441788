"""Whole training steps on a GPU: the base model beside its peers, and what each part gains.

Every function is a stage of `train_gpu`: it yields records, each as soon as it is known.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple
from unittest import mock

import torch
from torch import Tensor

from bench import stages
from bench.paper import BASE, TOKENS, hours_at
from bench.peers.contract import ModelShape, PeerConfig
from bench.peers.regard_model import build_fresh_model
from bench.peers.training_loop import SMOOTHING, PeerTrainer, wait_for_device
from bench.stages import Records
from bench.synthetic_batches import MEAN, synthetic_batches
from regard.batching.shape_buckets import ShapeBuckets
from regard.kernels import cross_entropy, dispatch
from regard.kernels.cuda_graphs import CudaGraphs
from regard.models.contracts import AnyModel
from regard.training.gpu import cuda_graph_step
from regard.training.gpu.cuda_graph_step import CudaGraphStep
from regard.training.loss import batch_loss
from regard.training.optimizer import OptimizerSettings, build_optimizer
from regard.training.step import ExpertLoad, StepContext
from regard.types import AnyBatch

CUDA = torch.device("cuda")
LEARNING_RATE = 1e-4
WARM_UP, TIMED = 6, 24
TRAINING_KERNELS = ("varlen_attention", "fused_add_norm", "fused_linear_relu", "cross_entropy")


class Workload(NamedTuple):
    """A model, and the batches that it is trained on."""

    shape: ModelShape
    tokens: int
    """Positions of each side of a batch."""
    mean: float = MEAN
    """Tokens of a sentence."""

    def batches(self, count: int) -> list[AnyBatch]:
        return synthetic_batches(count, self.tokens, self.shape.vocabulary, mean=self.mean)

    def flops(self, batch: AnyBatch) -> float:
        """Of the matrix products of a step, forward and backward, those of attention included."""
        d, f = self.shape.width, self.shape.feed_forward
        encoders, decoders = self.shape.encoder_layers, self.shape.decoder_layers
        source, target = (x.mask.sum(1).double() for x in (batch.inputs, batch.decoder_input))
        # keys and values of the source belong to the decoder, but are as many as source tokens
        weights = (encoders * (4 * d * d + 2 * d * f) + decoders * 2 * d * d) * source.sum()
        weights += (decoders * (6 * d * d + 2 * d * f) + d * self.shape.vocabulary) * target.sum()
        pairs = encoders * source * source + decoders * (target * target / 2 + source * target)
        return float(6 * weights + 12 * d * pairs.sum())


LARGE = Workload(BASE, TOKENS)
SMALL = Workload(ModelShape(), 4096, 14.0)
"""With sentences as long as those of Multi30k."""

StepFn = Callable[[AnyBatch], Tensor]
"""Trains on a batch and returns its loss, without waiting for the device."""


def timed(
    step: StepFn, workload: Workload, batches: list[AnyBatch], *, rehearsals: int = 0
) -> dict[str, Any]:
    """The median speed of three rounds, after `rehearsals` on all batches and a warm-up."""
    began = time.perf_counter()
    for batch in batches * rehearsals + batches[:WARM_UP]:
        loss = step(batch)
    wait_for_device(CUDA)
    warm_up_seconds = time.perf_counter() - began
    torch.cuda.reset_peak_memory_stats()
    rounds = []
    for _ in range(3):
        began = time.perf_counter()
        for batch in batches[WARM_UP:]:
            loss = step(batch)
        host_seconds = time.perf_counter() - began
        wait_for_device(CUDA)
        rounds.append(time.perf_counter() - began)
    seconds, tokens = sorted(rounds)[1], sum(batch.num_labels for batch in batches[WARM_UP:])
    num_steps = len(batches) - WARM_UP
    return {
        "tokens_per_second": tokens / seconds,
        "all_rounds": [tokens / one for one in rounds],
        "ms_a_step": 1e3 * seconds / num_steps,
        "host_ms_a_step": 1e3 * host_seconds / num_steps,
        "tflops": sum(workload.flops(batch) for batch in batches[WARM_UP:]) / seconds / 1e12,
        "warm_up_seconds": warm_up_seconds,
        "gibibytes": torch.cuda.max_memory_allocated() / 2**30,
        "loss": float(loss),
    }


def eager(workload: Workload, *, compiled: bool = False) -> StepFn:
    """Our model without CUDA graphs."""
    torch.manual_seed(1)
    model = build_fresh_model(workload.shape).to(CUDA)

    def loss(batch: AnyBatch) -> Tensor:
        return batch_loss(model, batch, SMOOTHING).loss / batch.num_labels

    return PeerTrainer(
        model, loss, PeerConfig("bfloat16", device=CUDA.type, compiled=compiled)
    ).step


def peer(module: str, workload: Workload, *, compiled: bool) -> StepFn:
    """The model of a peer, with the same loss of the same positions: Hugging Face's, padded, or one
    of packed sentences with torch's flash attention.
    """
    torch.manual_seed(1)
    config = PeerConfig("bfloat16", device=CUDA.type, compiled=compiled)
    opened = import_module(f"bench.peers.{module}").open_trainer(workload.shape, config)
    trainer: PeerTrainer = opened
    return trainer.step


class CapturedStep:
    """Our model, as `regard train` trains it on a GPU."""

    def __init__(self, workload: Workload, *, dropout: float = 0.1) -> None:
        torch.manual_seed(1)
        self.model = build_fresh_model(replace(workload.shape, dropout=dropout)).to(CUDA).train()
        self.step = capture(step_context(self.model), workload.tokens)

    def __call__(self, batch: AnyBatch) -> Tensor:
        totals = self.step.context.totals.zero_()
        self.step([batch], lr=LEARNING_RATE, step=1)
        return totals[0] / batch.num_labels

    def shapes(self, batches: list[AnyBatch]) -> dict[str, float]:
        """How many were captured, and the share of both sides' tokens that is filler."""
        buckets = self.step.buckets
        filled = sum(_num_tokens(buckets.pad(batch, buckets.shape(batch))) for batch in batches)
        real = sum(map(_num_tokens, batches))
        return {"shapes": len(self.step.replays), "filler": 1 - real / filled}


def _num_tokens(batch: AnyBatch) -> int:
    """Tokens of both sides that are computed."""
    indices: Tensor = batch.inputs.indices
    return batch.num_labels + len(indices)


def step_context(model: AnyModel, *, smoothing: float = SMOOTHING) -> StepContext:
    settings = OptimizerSettings()
    return StepContext(
        model,
        partial(batch_loss, smoothing=smoothing),
        build_optimizer(model, settings),
        None,
        torch.zeros(2, device=CUDA, dtype=torch.float64),
        ExpertLoad(),
        settings.clip_norm,
        partial(torch.autocast, CUDA.type, torch.bfloat16),
    )


def capture(context: StepContext, tokens: int) -> CudaGraphStep:
    """A step of batches of at most `tokens` positions a side; an error if it is not captured."""

    def fail(note: str) -> None:
        raise RuntimeError(note)

    buckets = ShapeBuckets(tokens, context.model.supports_packing, context.model.max_length)
    return CudaGraphStep(context, buckets, CudaGraphs(CUDA), fail)


STEPS: dict[str, Callable[[Workload], StepFn]] = {
    "regard, captured": CapturedStep,
    "packed flash attention, compiled": partial(peer, "packed_flash", compiled=True),
    "Hugging Face Marian, compiled": partial(peer, "hugging_face", compiled=True),
    "regard, eager": eager,
    "regard, compiled": partial(eager, compiled=True),
    "packed flash attention": partial(peer, "packed_flash", compiled=False),
    "Hugging Face Marian": partial(peer, "hugging_face", compiled=False),
}
"""By the names that `train_gpu` has for them."""


def step(name: str) -> Records:
    """The speed of one contender on the base model's batches."""
    batches, train = LARGE.batches(WARM_UP + TIMED), STEPS[name](LARGE)
    speed = timed(train, LARGE, batches, rehearsals=2)
    shapes = train.shapes(batches) if isinstance(train, CapturedStep) else {}
    hours = hours_at(speed["tokens_per_second"])
    yield {"who": name, **speed, **shapes, "hours_for_the_papers_steps": hours}


@contextmanager
def without(part: str) -> Iterator[None]:
    """A context in which steps that are built and captured lack a part."""
    with ExitStack() as patches:
        if part in TRAINING_KERNELS:
            patches.enter_context(mock.patch.object(dispatch, "disabled", {part}))
        elif part == "cross_entropy of whole rows":
            patches.enter_context(mock.patch.object(cross_entropy, "MAX_WHOLE_ROW", 0))
        elif part == "bf16_weights":
            unchanged = lambda loss, model: partial(loss, model)  # noqa: E731
            patches.enter_context(mock.patch.object(cuda_graph_step, "Bf16Loss", unchanged))
        yield


PARTS = ("nothing", *TRAINING_KERNELS, "cross_entropy of whole rows", "bf16_weights")


def ablation() -> Records:
    """The base model's captured step without each part."""
    batches = LARGE.batches(WARM_UP + TIMED)
    steps = {}
    for part in PARTS:
        with without(part):
            steps[part] = CapturedStep(LARGE)
            for batch in batches * 2:
                steps[part](batch)
    tokens = sum(batch.num_labels for batch in batches)

    def speed(part: str) -> float:
        wait_for_device(CUDA)
        began = time.perf_counter()
        for batch in batches:
            steps[part](batch)
        wait_for_device(CUDA)
        return tokens / (time.perf_counter() - began)

    return stages.ablation(PARTS, speed)


def small() -> Records:
    """A small model's step, eager and captured, and whether graphs change the weights."""
    batches = SMALL.batches(60)
    yield {"who": "small, eager", **timed(eager(SMALL), SMALL, batches)}
    captured = CapturedStep(SMALL)
    speed = timed(captured, SMALL, batches, rehearsals=2)
    yield {"who": "small, captured", **speed, **captured.shapes(batches)}
    replayed, repeated = CapturedStep(SMALL, dropout=0.0), CapturedStep(SMALL, dropout=0.0)
    repeated.step.capturer.capture = lambda work: work  # type: ignore[method-assign]
    for batch in batches[:40]:
        replayed(batch)
        repeated(batch)
    pairs = zip(replayed.model.parameters(), repeated.model.parameters(), strict=True)
    gap = max(((a - b).norm() / a.norm().clamp(min=1e-9)).item() for a, b in pairs)
    yield {"captured weights differ by": gap, "ok": gap < 1e-2}
