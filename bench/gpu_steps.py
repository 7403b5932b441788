"""Whole steps of training on a GPU: the base model beside Hugging Face's, and captured small ones.

Every function is a stage of `train_gpu`: it yields facts, each at once when it is known.
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.batching.buckets import Buckets
from regard.batching.collate import collate
from regard.batching.plan import plan_epoch
from regard.kernels import available
from regard.models.transformer import Transformer, TransformerSettings
from regard.training.captured import Again, CapturedStep, Graphs
from regard.training.expert_use import ExpertUse
from regard.training.loss import batch_loss
from regard.training.optimizer import OptimizerSettings, build_optimizer
from regard.training.step import Learning
from regard.types import Batch

Facts = Iterator[dict[str, Any]]
CUDA = torch.device("cuda")
SMOOTHING, CLIP, RATE = 0.1, 1.0, 1e-4
WARM, TIMED = 6, 24
MEAN, SPREAD, LONGEST = 29.0, 0.55, 256


class Size(NamedTuple):
    """Of a Transformer and its batches."""

    layers: int = 6
    width: int = 512
    heads: int = 8
    feed_forward: int = 2048
    vocabulary: int = 32_000
    budget: int = 25_000
    mean: float = MEAN
    dropout: float = 0.1

    def flops(self, batch: Batch) -> float:
        """Of a step on a batch, forward and backward: the products, those of attention included."""
        d, f = self.width, self.feed_forward
        encoder, decoder = (
            self.layers * (4 * d * d + 2 * d * f),
            self.layers * (8 * d * d + 2 * d * f),
        )
        source, target = (x.mask.sum(1).double() for x in (batch.source, batch.target))
        # keys and values of the source belong to the decoder, but are as many as source tokens
        cross = self.layers * 2 * d * d
        weights = (encoder + cross) * source.sum() + (decoder - cross) * target.sum()
        weights += d * self.vocabulary * target.sum()
        pairs = (source * source + target * target / 2 + source * target).sum() * self.layers
        return float(6 * weights + 12 * d * pairs)


BASE = Size()
SMALL = Size(4, 256, 4, 1024, 8_000, 4_096, 14.0)


def batches(size: Size, count: int) -> list[Batch]:
    """Random sentences of log-normal lengths in batches of like length, in pinned memory."""
    chance = np.random.default_rng(1)
    pairs = 4 * count * size.budget // int(size.mean)
    source = np.exp(chance.normal(np.log(size.mean) - SPREAD**2 / 2, SPREAD, pairs))
    target = source * np.exp(chance.normal(0, 0.15, pairs))
    lengths = [np.clip(side.round(), 2, LONGEST).astype(np.int32) for side in (source, target)]
    plan = plan_epoch(*lengths, budget=size.budget, seed=1, epoch=0)[:count]

    def draw(side: int, rows: Sequence[int]) -> list[list[int]]:
        return [
            chance.integers(4, size.vocabulary, lengths[side][row] - 1).tolist() for row in rows
        ]

    return [collate(draw(0, rows.tolist()), draw(1, rows.tolist())) for rows in plan]


def build(size: Size) -> Transformer:
    torch.manual_seed(1)
    settings = TransformerSettings(
        encoder_layers=size.layers,
        decoder_layers=size.layers,
        width=size.width,
        heads=size.heads,
        feed_forward=size.feed_forward,
        dropout=size.dropout,
    )
    return Transformer(settings, size.vocabulary, size.vocabulary).to(CUDA).train()


class Plain:
    """A step as `training.loop` has it."""

    def __init__(self, model: nn.Module, loss: Callable[[Batch], Tensor]) -> None:
        self.model, self.loss = model, loss
        self.optimizer = build_optimizer(model, OptimizerSettings())

    def __call__(self, batch: Batch) -> Tensor:
        batch = batch.to(CUDA, non_blocking=True)
        with torch.autocast(CUDA.type, torch.bfloat16):
            loss = self.loss(batch)
        torch.autograd.backward(loss)
        nn.utils.clip_grad_norm_(self.model.parameters(), CLIP)
        for group in self.optimizer.param_groups:
            group["lr"] = RATE
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.detach()


def timed(step: Callable[[Batch], Any], size: Size, given: list[Batch]) -> dict[str, Any]:
    """Tokens a second of some steps, after others that are not counted."""
    began = time.perf_counter()
    for batch in given[:WARM]:
        last = step(batch)
    torch.cuda.synchronize()
    warm = time.perf_counter() - began
    torch.cuda.reset_peak_memory_stats()
    rounds = []
    for _ in range(3):
        began = time.perf_counter()
        for batch in given[WARM:]:
            last = step(batch)
        asked = time.perf_counter() - began
        torch.cuda.synchronize()
        rounds.append(time.perf_counter() - began)
    spent, tokens = sorted(rounds)[1], sum(batch.num_tokens for batch in given[WARM:])
    flops = sum(size.flops(batch) for batch in given[WARM:])
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


def ours(
    size: Size,
    *,
    compiled: Literal["nothing", "model", "loss"] = "nothing",
    without: tuple[str, ...] = (),
) -> Plain:
    """Our model, without some of the kernels; what is compiled of it may include the loss."""
    available.disabled.update(without)
    model = build(size)

    def loss(batch: Batch) -> Tensor:
        return batch_loss(model, batch, SMOOTHING).minimised / batch.num_tokens

    if compiled == "model":  # and not the loss, which is made in chunks then
        model.teach = torch.compile(model.teach, dynamic=True)  # type: ignore[method-assign]
    return Plain(model, torch.compile(loss, dynamic=True) if compiled == "loss" else loss)


def marian(size: Size, *, compiled: bool) -> Plain:
    """Hugging Face's model, padded, with the same loss of the same positions."""
    import transformers

    torch.manual_seed(1)
    config = transformers.MarianConfig(
        vocab_size=size.vocabulary, d_model=size.width, encoder_layers=size.layers,
        decoder_layers=size.layers, encoder_attention_heads=size.heads,
        decoder_attention_heads=size.heads, encoder_ffn_dim=size.feed_forward,
        decoder_ffn_dim=size.feed_forward, dropout=size.dropout, attention_dropout=0.0,
        activation_dropout=0.0, activation_function="relu", max_position_embeddings=1024,
        scale_embedding=True, pad_token_id=0, bos_token_id=2, eos_token_id=3,
        decoder_start_token_id=2, forced_eos_token_id=None,
    )  # fmt: skip
    model = transformers.MarianMTModel(config).to(CUDA).train()

    def loss(batch: Batch) -> Tensor:
        logits = model(
            input_ids=batch.source.ids,
            attention_mask=batch.source.mask,
            decoder_input_ids=batch.target.ids,
            use_cache=False,
        ).logits.flatten(0, 1)[batch.places]
        return F.cross_entropy(logits, batch.labels, label_smoothing=SMOOTHING)

    return Plain(model, torch.compile(loss, dynamic=True) if compiled else loss)


EVERY = ("attention", "norm", "bend", "loss")
STEPS: dict[str, Callable[[], Plain]] = {
    "regard, kernels": partial(ours, BASE),
    "regard, kernels, model compiled": partial(ours, BASE, compiled="model"),
    "Hugging Face Marian, compiled": partial(marian, BASE, compiled=True),
    "regard, kernels, all compiled": partial(ours, BASE, compiled="loss"),
    "regard, kernels but norm, model compiled": partial(
        ours, BASE, compiled="model", without=("norm",)
    ),
    "regard, kernels but bend": partial(ours, BASE, without=("bend",)),
    "Hugging Face Marian": partial(marian, BASE, compiled=False),
    "regard, no kernels": partial(ours, BASE, without=EVERY),
    "regard, no kernels, all compiled": partial(ours, BASE, compiled="loss", without=EVERY),
}
"""By the names that `train_gpu` has for them."""


def step(name: str) -> Facts:
    """One contender's step on the base model's batches."""
    given = batches(BASE, WARM + TIMED)
    found = timed(STEPS[name](), BASE, given)
    steps_a_day = 100_000 * 25_000 / found["tokens_per_second"] / 3600
    yield {"who": name, **found, "hours_for_the_papers_100000_steps": steps_a_day}


def profile() -> Facts:
    """Which kernels the time of a step goes to."""
    work, given = ours(BASE), batches(BASE, 8)
    for batch in given[:4]:
        work(batch)
    torch.cuda.synchronize()
    activities = [torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as seen:
        for batch in given[4:]:
            work(batch)
        torch.cuda.synchronize()
    events = sorted(seen.key_averages(), key=lambda event: -event.self_device_time_total)
    total = sum(event.self_device_time_total for event in events)
    yield {"kernels_ms_a_step": total / 4e3, "launches_a_step": sum(e.count for e in events) / 4}
    for event in events[:40]:
        share = event.self_device_time_total / total
        yield {
            "kernel": event.key[:100],
            "share": round(share, 4),
            "ms": event.self_device_time_total / 4e3,
            "calls": event.count / 4,
        }


def captured_step(size: Size, *, graphs: bool, dropout: float) -> tuple[Transformer, CapturedStep]:
    model = build(size._replace(dropout=dropout))
    learning = Learning(
        model,
        partial(batch_loss, smoothing=SMOOTHING),
        build_optimizer(model, OptimizerSettings()),
        None,
        torch.zeros(2, device=CUDA, dtype=torch.float64),
        ExpertUse(),
        CLIP,
        partial(torch.autocast, CUDA.type, torch.bfloat16),
    )
    recorder = Graphs(CUDA) if graphs else Again()
    return model, CapturedStep(learning, Buckets(size.budget), recorder)


def captured() -> Facts:
    """A small model's step: plain, in buckets, captured; and whether capturing changes anything."""
    given = batches(SMALL, 60)
    models = []
    for graphs in (False, True):
        torch.manual_seed(2)
        model, work = captured_step(SMALL, graphs=graphs, dropout=0.0)
        for number, batch in enumerate(given[:40]):
            work([batch], rate=RATE, step=number + 1)
        models.append([p.detach().clone() for p in model.parameters()])
        yield {"graphs": graphs, "shapes": len(work.runs), "loss": work.learning.totals.tolist()}
    gaps = [
        ((a - b).norm() / a.norm().clamp(min=1e-9)).item() for a, b in zip(*models, strict=True)
    ]
    yield {"captured differs from plain by": max(gaps), "ok": max(gaps) < 1e-2}
    yield from _capture_times(given)
    yield from _capture_chance(given)


def _capture_times(given: list[Batch]) -> Facts:
    def loss(model: nn.Module, batch: Batch) -> Tensor:
        return batch_loss(model, batch, SMOOTHING).minimised / batch.num_tokens  # type: ignore[arg-type]

    model = build(SMALL)
    yield {"who": "plain", **timed(Plain(model, partial(loss, model)), SMALL, given)}
    for graphs in (False, True):
        _, work = captured_step(SMALL, graphs=graphs, dropout=0.1)

        def one(batch: Batch, work: CapturedStep = work) -> float:
            work([batch], rate=RATE, step=1)
            return math.nan

        for batch in given:  # so that all shapes are captured before the clock starts
            one(batch)
            one(batch)
        name = "captured" if graphs else "in buckets, not captured"
        yield {"who": name, **timed(one, SMALL, given), "shapes": len(work.runs)}


def _capture_chance(given: list[Batch]) -> Facts:
    """Whether dropout differs in each replay, and repeats from the same state of the generator."""
    _, work = captured_step(SMALL, graphs=True, dropout=0.1)
    batch, seen = given[0], []
    for group in work.learning.optimizer.param_groups:
        group["betas"], group["weight_decay"] = (0.9, 0.98), 0.0
    for _ in range(3):
        work([batch], rate=0.0, step=1)
    state = torch.cuda.get_rng_state()
    for turn in range(3):
        if turn == 2:
            torch.cuda.set_rng_state(state)
        work.learning.totals.zero_()
        work([batch], rate=0.0, step=1)
        seen.append(work.learning.totals[0].item())
    yield {"losses": seen, "ok": seen[0] != seen[1] and seen[0] == seen[2]}
