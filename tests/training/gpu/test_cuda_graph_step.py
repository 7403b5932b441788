import random
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from itertools import islice

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from recorders import Counted, EagerReplay
from regard.batching.collate import collate
from regard.batching.masked_windows import Masking, masked_windows
from regard.batching.sampler import StreamPosition
from regard.batching.shape_buckets import ExactShapes, ShapeBuckets
from regard.errors import TrainingError
from regard.kernels.cuda_graphs import CudaGraphs
from regard.models.build import build_model
from regard.models.language.bert import Bert, BertSettings
from regard.models.translation.luong import LuongSettings
from regard.models.translation.rnnsearch import RnnSearchSettings
from regard.models.translation.transformer_settings import TransformerSettings
from regard.training.gpu import cuda_graph_step as captured_module
from regard.training.gpu.cuda_graph_step import (
    Bf16Loss,
    CudaGraphStep,
    copy_batch,
    require_cuda_graphs,
)
from regard.training.loss import batch_loss
from regard.training.optimizer import OptimizerSettings, build_optimizer
from regard.training.settings import TrainingSettings
from regard.training.step import EagerStep, ExpertLoad, MovingAverage, StepContext
from regard.types import Batch
from variants import V_TARGET, VARIANTS, is_routed, tiny

SIZE, CLIP = 40, 0.5
every_one = pytest.mark.parametrize("name", [name for name in VARIANTS if not is_routed(name)])
needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
SETTINGS = {"encoder_layers": 1, "decoder_layers": 1, "width": 16, "heads": 2, "feed_forward": 24}


def batches(lengths, seed=0):
    """One batch of so many sentences for each list of lengths."""
    generator = torch.Generator().manual_seed(seed)

    def draw(sizes):
        return [torch.randint(4, SIZE, (size,), generator=generator).tolist() for size in sizes]

    return [collate(draw(sizes), draw(reversed(sizes))) for sizes in lengths]


def context(chosen=None, *, consistency=0.0, autocast=nullcontext, **settings):
    torch.manual_seed(1)
    chosen = chosen or TransformerSettings(**SETTINGS, **settings)
    model = build_model(chosen, SIZE, SIZE, joint=True)
    optimizer = build_optimizer(model, OptimizerSettings())
    ema = MovingAverage(list(model.parameters()), 0.9)
    totals = torch.zeros(2, dtype=torch.float64)
    loss = partial(batch_loss, smoothing=0.1, consistency=consistency)
    return StepContext(model, loss, optimizer, ema, totals, ExpertLoad(), CLIP, autocast)


def step_of(it, capturer, notes=None, budget=60):
    buckets = ShapeBuckets(budget, it.model.supports_packing, it.model.max_length)
    return CudaGraphStep(it, buckets, capturer, [].append if notes is None else notes.append)


def close(found, wanted):
    """Assert that two contexts have the same totals, weights and averages."""
    torch.testing.assert_close(found.totals, wanted.totals, rtol=1e-4, atol=1e-4)
    names = dict(wanted.model.named_parameters())
    for name, parameter in found.model.named_parameters():
        torch.testing.assert_close(parameter, names[name], rtol=1e-3, atol=2e-4)
    for one, other in zip(found.ema.shadow, wanted.ema.shadow, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=2e-4)


def both(given, capturer, accumulate=1, notes=None, budget=60, **how):
    """Train on the same batches with plain and with captured steps, which must agree."""
    plain, other = (context(**how) for _ in range(2))
    captured, plain_step = step_of(other, capturer, notes, budget), EagerStep(plain)
    for step in range(1, 1 + len(given) // accumulate):
        some = given[(step - 1) * accumulate : step * accumulate]
        plain_step(some, lr=0.01 * step, step=step)
        captured(some, lr=0.01 * step, step=step)
    close(other, plain)
    return captured


LENGTHS = [[3, 5, 4], [6, 7], [2, 2, 5, 5], [9, 11], [7, 4, 3], [10, 12], [5, 1], [5, 4, 4]]
# The gradient of a bias of keys is 0 but for rounding, of which Adam would make whole steps.
FREE = {"dropout": 0.0, "bias": False}
WAYS = {
    "packed": FREE,
    "padded": FREE | {"positions": "relative"},
    "limited": FREE | {"positions": "learned", "max_positions": 13},
    "recurrent": {"chosen": RnnSearchSettings(width=8, embedding=6, alignment=7, readout=5)},
    "seen twice": FREE | {"consistency": 2.0},
}


@pytest.mark.parametrize("budget", [60, 11], ids=["within", "beyond"])
@pytest.mark.parametrize("accumulate", [1, 2])
@pytest.mark.parametrize("how", WAYS.values(), ids=WAYS)
def test_it_ends_where_the_plain_step_ends(how, accumulate, budget):
    capturer = Counted()
    captured = both(batches(LENGTHS), capturer, accumulate, budget=budget, **how)
    assert capturer.captured == len(captured.replays) > 0
    assert capturer.replayed >= capturer.captured
    assert captured.fallback is None


@pytest.mark.parametrize(("accumulate", "replayed"), [(1, 1), (2, 3)])
def test_the_gradients_of_ranks_are_summed_before_the_update(accumulate, replayed):
    asked = []

    def add_other_rank(parameters, *, in_place=False):
        asked.append(in_place)
        for number, parameter in enumerate(parameters):
            summed = parameter.grad * (number % 3)
            if in_place:
                parameter.grad.copy_(summed)
            else:
                parameter.grad = summed

    (batch,), capturer = batches([[3, 5, 4]]), Counted()
    plain, other, alone = (context(**FREE) for _ in range(3))
    plain, other = (one._replace(sum_gradients=add_other_rank) for one in (plain, other))
    captured = step_of(other, capturer)
    for step in (1, 2, 3):
        for train in (EagerStep(plain), EagerStep(alone), captured):
            train([batch] * accumulate, lr=0.01, step=step)
    close(other, plain)
    assert not torch.equal(plain.ema.shadow[0], alone.ema.shadow[0])
    replays = capturer.replayed
    asked.clear()
    captured([batch] * accumulate, lr=0.01, step=4)
    assert capturer.replayed - replays == replayed
    assert asked == [accumulate > 1]  # the graph of the update reads the gradients where they were


@pytest.mark.parametrize("accumulate", [1, 2])
@pytest.mark.parametrize("until", [0, 1])
def test_what_cannot_be_captured_is_learned_from_plainly_and_once(until, accumulate):
    capturer, notes = Counted(until=until), []
    captured = both(batches(LENGTHS), capturer, accumulate, notes, **FREE)
    assert notes == ["steps are not captured as graphs from here on: the device says no"]
    assert captured.fallback is not None
    assert not captured.replays
    assert not captured.static_batches


def test_weights_in_half_precision_come_to_the_same():
    halves = partial(torch.autocast, "cpu", torch.bfloat16)
    plain, other = (context(autocast=halves, **FREE) for _ in range(2))
    (batch,), step = batches([[9] * 6]), step_of(other, EagerReplay())
    EagerStep(plain)([batch], lr=0.0, step=1)
    step([batch], lr=0.0, step=1)
    torch.testing.assert_close(other.totals, plain.totals, rtol=1e-3, atol=0.0)


def test_the_first_of_a_shape_is_done_and_the_second_captured():
    capturer = Counted()
    captured = step_of(context(), capturer)
    one, other = batches([[3, 5, 4], [5, 2, 4]])
    captured([one], lr=0.01, step=1)
    assert capturer.captured == 0
    captured([other], lr=0.01, step=2)
    assert capturer.captured == 1
    captured([one], lr=0.01, step=3)
    assert capturer.captured == 1
    assert capturer.replayed == 2


def test_of_several_batches_each_shape_is_captured_and_the_update():
    capturer = Counted()
    captured = step_of(context(), capturer)
    pairs = batches([[3, 5, 4], [9, 11]])
    for step in (1, 2, 3):
        captured(pairs, lr=0.01, step=step)
    assert capturer.captured == 3
    assert capturer.replayed == 6


@pytest.mark.parametrize("positions", ["sinusoid", "relative"], ids=["packed", "padded"])
def test_batches_that_were_cut_at_random_are_replayed(positions):
    chance, lengths = random.Random(1), []
    for _ in range(40):  # planned with 60 positions, and then cut
        length = chance.choice([5, 7, 9])
        grown = [length + chance.randint(0, length // 2) for _ in range(60 // (length + 1))]
        lengths.append(grown)
    assert sum(len(one) * (max(one) + 1) > 60 for one in lengths) > 30
    capturer = Counted()
    captured = step_of(context(positions=positions), capturer)
    for step, batch in enumerate(batches(lengths), start=1):
        captured([batch], lr=0.01, step=step)
    assert capturer.replayed > 0.6 * len(lengths)


def test_no_more_shapes_are_captured_than_are_worth_it(monkeypatch):
    monkeypatch.setattr(captured_module, "MAX_SHAPES", 1)
    capturer = Counted()
    captured = both(batches(LENGTHS), capturer, **FREE)
    assert len(captured.static_batches) == capturer.captured == 1


def test_a_shape_seen_once_takes_no_place_from_others(monkeypatch):
    monkeypatch.setattr(captured_module, "MAX_SHAPES", 1)
    capturer, (once, often) = Counted(), batches([[9, 11], [3, 5, 4]])
    captured = both([once, often, often, often, once, once], capturer, **FREE)
    assert list(captured.static_batches) == [captured.buckets.shape(often)]
    assert capturer.captured == 1
    assert capturer.replayed == 2


def test_dropout_differs_each_time():
    it = context(dropout=0.3)
    captured = step_of(it, EagerReplay())
    given, seen = batches([[3, 5, 4]]), []
    for step in (1, 2, 3):
        it.totals.zero_()
        captured(given, lr=0.0, step=step)
        seen.append(it.totals[0].item())
    assert len(set(seen)) == 3


def test_gradients_of_several_batches_stay_where_they_are():
    it = context()
    captured, seen = step_of(it, EagerReplay()), set()
    for step in (1, 2, 3):
        captured(batches([[3, 5, 4], [6, 7]]), lr=0.01, step=step)
        seen.add(tuple(p.grad.data_ptr() for p in it.model.parameters()))
    assert len(seen) == 1
    assert all((p.grad == 0).all() for p in it.model.parameters())


def test_putting_a_batch_changes_the_values_and_not_the_place():
    one, other = batches([[3, 5]]), batches([[3, 5]], seed=1)
    place = one[0].labels.data_ptr()
    copy_batch(other[0], one[0])
    assert torch.equal(one[0].labels, other[0].labels)
    assert torch.equal(one[0].inputs.ids, other[0].inputs.ids)
    assert one[0].labels.data_ptr() == place


def test_models_with_experts_are_trained_without_graphs():
    it, notes = context(experts={"count": 3, "every": 1}), []
    captured = step_of(it, EagerReplay(), notes)
    for step in (1, 2):
        captured(batches([[3, 5]]), lr=0.01, step=step)
    assert len(notes) == 1
    assert "the model has experts, and the host counts their use" in notes[0]
    assert it.expert_load.pop_metrics()


def test_a_cpu_has_no_graphs():
    with pytest.raises(TrainingError, match=r"capture replays CUDA graphs, .* this is a cpu"):
        require_cuda_graphs(torch.device("cpu"))


def test_settings_say_auto_or_yes_or_no():
    assert TrainingSettings().capture == "auto"
    for word, wanted in (("auto", "auto"), ("on", True), (True, True), (False, False)):
        assert TrainingSettings(capture=word).capture == wanted
    with pytest.raises(ValidationError):
        TrainingSettings(capture="sometimes")


def test_what_is_compiled_is_not_captured():
    assert TrainingSettings(compile=True).capture == "auto"
    with pytest.raises(ValidationError, match="leave out one of compile and capture"):
        TrainingSettings(capture=True, compile=True)


@every_one
@pytest.mark.parametrize("budget", [90, 10], ids=["within", "beyond"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_batch_that_is_filled_up_costs_what_it_cost(name, dtype, budget):
    model, source, target = tiny(name, dtype=dtype)
    places, cells = (x.mask.flatten().nonzero().squeeze(1) for x in (target, source))
    batch = Batch(
        replace(source, indices=cells), target, places, torch.randint(V_TARGET, places.shape)
    )
    buckets = ShapeBuckets(budget, model.supports_packing, model.max_length)
    filled = buckets.pad(batch, buckets.shape(batch))
    assert filled.num_labels > batch.num_labels
    assert (source.ids.numel() > budget) == (budget == 10)
    weights, found = list(model.parameters()), []
    for one in (batch, filled):
        loss = batch_loss(model, one, 0.1)
        grads = torch.autograd.grad(loss.loss, weights, allow_unused=True)
        found.append((loss.loss, loss.nll, grads))
    exact = dtype == torch.float64
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-10 if exact else 1e-4)


def four_steps(model, batch, budget, *, capturer=None):
    """The loss of each of four steps, by graphs if a capturer is given, and the notes."""
    where, settings = next(model.parameters()).device, OptimizerSettings()
    context = StepContext(
        model, partial(batch_loss, smoothing=0.1), build_optimizer(model, settings), None,
        torch.zeros(2, device=where), ExpertLoad(), settings.clip_norm, nullcontext,
    )  # fmt: skip
    step, notes, seen = EagerStep(context), [], []
    if capturer is not None:
        buckets = ShapeBuckets(budget, model.supports_packing, model.max_length)
        step = CudaGraphStep(context, buckets, capturer, notes.append)
    for number in range(1, 5):
        context.totals.zero_()
        step([batch], lr=1e-3, step=number)
        seen.append(context.totals[0].item())
    return seen, notes


@pytest.mark.parametrize(
    "where", ["cpu", pytest.param("cuda", marks=[pytest.mark.gpu, needs_cuda])]
)
@pytest.mark.parametrize("budget", [90, 10], ids=["within", "beyond"])
@every_one
def test_a_captured_step_learns_what_a_plain_one_learns(name, where, budget):
    losses = []
    for captured in (False, True):
        model, source, target = tiny(name, dtype=torch.float32)
        places, cells = (x.mask.flatten().nonzero().squeeze(1) for x in (target, source))
        batch = Batch(replace(source, indices=cells), target, places, target.ids.flatten()[places])
        there = torch.device(where)
        capturer = (CudaGraphs(there) if where == "cuda" else EagerReplay()) if captured else None
        seen, notes = four_steps(model.to(there), batch, budget, capturer=capturer)
        assert not notes
        losses.append(torch.tensor(seen))
    torch.testing.assert_close(*losses, rtol=1e-3, atol=1e-3)
    assert losses[0][-1] < losses[0][0]


@pytest.mark.parametrize("kind", ["sgd", "muon"])
def test_masked_windows_of_every_batch_are_one_graph(kind):
    text, masking = np.random.default_rng(0).integers(4, SIZE, 400), Masking(SIZE, 0.2, pairs=True)
    stream = masked_windows(text, StreamPosition(0, 0), masking, rows=4, length=16, seed=1)
    given = [one.batch for one in islice(stream, 8)]
    capturer, ends = Counted(), []
    for capture in (False, True):
        torch.manual_seed(1)
        sizes = {"layers": 1, "width": 16, "heads": 2, "context": 16, "dropout": 0.0}
        model = Bert(BertSettings(**sizes, positions="sinusoid"), SIZE)
        optimizer = build_optimizer(model, OptimizerSettings(kind=kind))
        loss, totals = partial(batch_loss, smoothing=0.0), torch.zeros(2, dtype=torch.float64)
        it = StepContext(model, loss, optimizer, None, totals, ExpertLoad(), CLIP, nullcontext)
        step = CudaGraphStep(it, ExactShapes(), capturer, pytest.fail) if capture else EagerStep(it)
        for number, batch in enumerate(given, start=1):
            step([batch], lr=0.1 if kind == "sgd" else 1e-3, step=number)
        ends.append([totals, *model.parameters()])
    assert (capturer.captured, capturer.replayed) == (1, 7)
    for found, wanted in zip(*ends, strict=True):
        torch.testing.assert_close(found, wanted)


LOSS = partial(batch_loss, smoothing=0.1)
BATCH = collate([[5, 6, 7], [8]], [[4, 5], [6, 7, 8]])


def transformer(**settings):
    torch.manual_seed(0)
    sizes = {"encoder_layers": 2, "decoder_layers": 1, "width": 16, "heads": 2, "feed_forward": 24}
    return build_model(TransformerSettings(**sizes | settings), SIZE, SIZE, joint=True)


def grads(loss, it):
    loss = loss.loss
    return [loss, *torch.autograd.grad(loss, list(it.parameters()), allow_unused=True)]


def test_weights_cast_at_once_give_the_numbers_of_autocast():
    it = transformer(dropout=0.0)
    bf16_loss = Bf16Loss(LOSS, it)
    assert len(bf16_loss.weights) == 2 * (2 * 4 + 6)  # weights and biases
    with torch.autocast("cpu", torch.bfloat16):
        wanted, found = grads(LOSS(it, BATCH), it), grads(bf16_loss(BATCH), it)
    for one, other in zip(found, wanted, strict=True):
        assert one.dtype == torch.float32
        assert torch.equal(one, other)


def test_without_autocast_no_weight_is_cast():
    it = transformer(dropout=0.0)
    assert torch.equal(Bf16Loss(LOSS, it)(BATCH).loss, LOSS(it, BATCH).loss)


def test_weights_that_do_not_learn_are_cast_as_well():
    it = transformer(dropout=0.0)
    bf16_loss = Bf16Loss(LOSS, it)
    for weight in bf16_loss.weights.values():
        weight.requires_grad_(False)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(bf16_loss(BATCH).loss, LOSS(it, BATCH).loss)


def test_casting_leaves_the_models_weights():
    it = transformer()
    before = dict(it.named_parameters())
    with torch.autocast("cpu", torch.bfloat16):
        Bf16Loss(LOSS, it)(BATCH)
    after = dict(it.named_parameters())
    assert all(after[name] is before[name] for name in before)


def test_the_output_layer_is_not_cast():
    it = build_model(LuongSettings(layers=1, width=8, embedding=6), SIZE, SIZE, joint=True)
    names = set(Bf16Loss(LOSS, it).weights)
    assert names
    assert not any(name.startswith("model.output.") for name in names)


def test_unused_weights_have_no_gradient():
    it = transformer(dropout=0.0)
    it.spare = torch.nn.Linear(3, 2)
    with torch.autocast("cpu", torch.bfloat16):
        found = grads(Bf16Loss(LOSS, it)(BATCH), it)
    names = [name for name, _ in it.named_parameters()]
    assert {name for name, grad in zip(names, found[1:], strict=True) if grad is None} == {
        "spare.weight",
        "spare.bias",
    }
