"""A text that goes on from batch to batch, trained with SGD and averaged weights."""

from contextlib import nullcontext
from functools import partial

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from recorders import Counted
from regard.batching.shape_buckets import ExactShapes
from regard.batching.text_windows import continued_windows
from regard.evaluation.text_perplexity import carried_nats
from regard.models.language.awd_lstm import AwdLstm, AwdLstmSettings
from regard.training.carried_memory import CarriedMemoryLoss
from regard.training.checkpoints import START, load_weights, read_progress
from regard.training.gpu.cuda_graph_step import CudaGraphStep
from regard.training.loop import TrainingTask, fit
from regard.training.optimizer import OptimizerSettings, build_optimizer
from regard.training.settings import TrainingSettings
from regard.training.step import EagerStep, ExpertLoad, StepContext, TriggeredAverage

ROWS, LENGTH, V = 4, 10, 13
TEXT = np.random.default_rng(0).integers(4, V, 600).astype(np.uint16)


class Silent:
    def __init__(self):
        self.notes = []

    def noted(self, message):
        self.notes.append(message)

    def logged(self, step, numbers):
        pass

    def validated(self, step, numbers, *, best):
        pass


def settings(**changed):
    plain = {
        "steps": 24,
        "precision": "float32",
        "optimizer": {"kind": "sgd", "learning_rate": 2.0, "momentum": 0.5, "clip_norm": 0.25},
        "schedule": {"shape": "constant", "warmup": 0},
        "validation": {"every": 3},
        "nonmonotone_average": 2,
        "save_every": 5,
        "log_every": 4,
    }
    return TrainingSettings.model_validate(plain | changed)


def new_model():
    torch.manual_seed(1)
    return AwdLstm(AwdLstmSettings(width=6, units=8, layers=2), V)


def train(folder, plain, *, stop_after=None, scores=None):
    model, reporter = new_model(), Silent()
    loss = CarriedMemoryLoss(model, ROWS, length=LENGTH, smoothing=0.0)
    given = None if scores is None else iter(scores)

    def validate(model):
        torch.rand(3)  # what validation draws does not matter either
        found = carried_nats(model, TEXT[:100]) / 100
        return {"loss": found if given is None else next(given)}

    steps = iter(range(1, 1000))
    task = TrainingTask(
        partial(continued_windows, TEXT, rows=ROWS, length=LENGTH, vary=True, seed=1),
        loss,
        validate,
        carried=loss.carried,
    )
    stop = (lambda: next(steps) == stop_after) if stop_after else (lambda: False)
    fit(model, task, plain, folder=folder, width=6, reporter=reporter, stop_requested=stop)
    return model, reporter


def test_gradients_stop_where_a_batch_begins_and_the_memory_does_not():
    model = new_model().eval()
    loss = CarriedMemoryLoss(model, ROWS, length=LENGTH, smoothing=0.0)
    stream = continued_windows(TEXT, START, rows=ROWS, length=LENGTH, vary=False, seed=1)
    batches = [next(stream).batch for _ in range(2)]
    tensors = list(loss.carried[0].values())
    found = [loss(model, batch) for batch in batches]
    assert all(a is b for a, b in zip(tensors, loss.carried[0].values(), strict=True))
    features, memory = [], model.blank_memory(ROWS)
    for batch in batches:
        decoded, memory = model.read_on(batch.decoder_input, memory)
        features.append(decoded.features.flatten(0, 1))
    logits = model.logits(features[1])
    wanted = torch.nn.functional.cross_entropy(logits, batches[1].labels, reduction="sum")
    torch.testing.assert_close(found[1].loss, wanted)
    torch.testing.assert_close(loss.carried[0]["cells"], memory.cells)
    found[1].loss.backward()
    assert model.embedding.weight.grad is not None


def test_a_short_window_counts_by_its_share():
    model = new_model().eval()
    batch = next(continued_windows(TEXT, START, rows=ROWS, length=5, vary=False, seed=1)).batch
    whole, part = (
        CarriedMemoryLoss(model, ROWS, length=length, smoothing=0.0)(model, batch)
        for length in (5, 10)
    )
    torch.testing.assert_close(part.loss, whole.loss / 2)
    torch.testing.assert_close(part.nll, whole.nll)


@pytest.mark.parametrize("stop", [1, 7, 13])
@pytest.mark.parametrize("changed", [{}, {"optimizer": {"kind": "adam"}}], ids=["sgd", "adam"])
def test_resuming_gives_the_same_weights(tmp_path, stop, changed):
    plain = settings(**changed)
    scores = [5.0, 4.0, 3.0, 4.5, 4.4, 4.3, 4.2, 4.1]  # averaged from the fifth on
    whole, _ = train(tmp_path / "whole", plain, scores=scores)
    train(tmp_path / "parts", plain, stop_after=stop, scores=scores)
    torch.manual_seed(99)
    rest = scores[stop // 3 :]
    found, _ = train(tmp_path / "parts", plain, scores=rest)
    for name, wanted in whole.state_dict().items():
        torch.testing.assert_close(found.state_dict()[name], wanted, rtol=0, atol=0)
    one, other = (
        load_weights(tmp_path / x / "weights/last.safetensors") for x in ("whole", "parts")
    )
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert not torch.equal(one["output_bias"], whole.output_bias)  # the last are the mean


def test_averaging_begins_when_validation_no_longer_improves(tmp_path):
    scores = [5.0, 4.0, 3.0, 4.1, 3.5, 3.4, 3.3, 3.2]
    _, reporter = train(tmp_path, settings(), scores=scores)
    assert reporter.notes == ["the weights are averaged from step 18 on"]
    assert read_progress(tmp_path / "checkpoints")[0].averaged_from == 18
    _, reporter = train(tmp_path / "other", settings(), scores=sorted(scores, reverse=True))
    assert reporter.notes == []


def test_a_triggered_average_is_the_mean_since_its_start():
    weights = [torch.tensor([1.0, 5.0])]
    average = TriggeredAverage(weights)
    for step, value in enumerate([2.0, 4.0, 9.0], 1):
        weights[0].fill_(value)
        if step == 2:
            average.start = 1
        average.update(step)
        if step == 1:
            assert average.shadow[0].tolist() == [2.0, 2.0]
    torch.testing.assert_close(average.shadow[0], torch.tensor([6.5, 6.5]))


def test_settings_without_effect_are_refused():
    with pytest.raises(ValidationError, match="betas has no effect on kind: sgd"):
        OptimizerSettings(kind="sgd", betas=(0.8, 0.9))
    with pytest.raises(ValidationError, match="momentum has no effect on kind: adam"):
        OptimizerSettings(momentum=0.9)
    with pytest.raises(ValidationError, match="leave out moving_average or nonmonotone_average"):
        settings(moving_average=0.9)


@pytest.mark.parametrize("accumulate", [1, 2])
def test_captured_steps_carry_the_memory_as_plain_ones_do(accumulate):
    """With the optimizer and the average of the recipes."""
    ends = []
    for capturer in (None, Counted()):
        torch.manual_seed(1)
        quiet = {f"{name}_dropout": 0.0 for name in ("embedding", "input", "hidden", "output")}
        model = AwdLstm(AwdLstmSettings(width=6, units=8, layers=2, weight_drop=0.0, **quiet), V)
        loss = CarriedMemoryLoss(model, ROWS, length=LENGTH, smoothing=0.0)
        optimizer = build_optimizer(model, settings().optimizer)
        average = TriggeredAverage(list(model.parameters()))
        average.start = 3
        totals = torch.zeros(2, dtype=torch.float64)
        context = StepContext(
            model, loss, optimizer, average, totals, ExpertLoad(), 0.25, nullcontext
        )
        step = (
            EagerStep(context)
            if capturer is None
            else CudaGraphStep(context, ExactShapes(), capturer, pytest.fail)
        )
        stream = continued_windows(TEXT, START, rows=ROWS, length=LENGTH, vary=True, seed=1)
        for number in range(1, 9):
            batches = [next(stream).batch for _ in range(accumulate)]
            step(batches, lr=1.0 + number / 10, step=number)
        ends.append([*model.parameters(), *average.shadow, *loss.carried[0].values(), totals])
    assert capturer.replayed > 0
    for found, wanted in zip(*ends, strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
