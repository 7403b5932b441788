from contextlib import nullcontext
from functools import partial

import pytest
import torch

from recorders import Counted
from regard.batching.shape_buckets import ExactShapes
from regard.batching.shuffled_windows import shuffled_windows
from regard.errors import SettingsError
from regard.models.language.awd_lstm import AwdLstm, AwdLstmSettings
from regard.models.language.gpt import Gpt, GptSettings
from regard.training.checkpoints import START
from regard.training.gpu.cuda_graph_step import CudaGraphStep
from regard.training.layer_groups import FineTuningSettings, LayerGroups, group_parameters
from regard.training.loop import TrainingTask, fit
from regard.training.loss import batch_loss
from regard.training.optimizer import OptimizerSettings, build_optimizer
from regard.training.settings import TrainingSettings
from regard.training.step import EagerStep, ExpertLoad, StepContext

VOCABULARY, LAYERS = 20, 2
SETTINGS = GptSettings(layers=LAYERS, width=8, heads=2, context=6, dropout=0.1)


def new_model():
    torch.manual_seed(1)
    return Gpt(SETTINGS, VOCABULARY)


def batches(start=START, shard=None):
    ids = torch.randint(4, VOCABULARY, (200,), generator=torch.Generator().manual_seed(2)).numpy()
    return shuffled_windows(ids, start, rows=3, length=5, seed=1)


class Quiet:
    def noted(self, message): ...
    def logged(self, step, numbers): ...
    def validated(self, step, numbers, *, best): ...


def train(folder, *, steps=9, stop_after=None, **fine_tuning):
    model, taken = new_model(), iter(range(1, 100))
    settings = TrainingSettings(
        steps=steps,
        precision="float32",
        optimizer={"weight_decay": 0.1},
        schedule={"shape": "slanted_triangle"},
        fine_tuning=fine_tuning,
        save_every=4,
    )
    loss = partial(batch_loss, smoothing=0.0)
    task = TrainingTask(batches, loss, lambda model: {"loss": 1.0})
    stop = lambda: stop_after is not None and next(taken) >= stop_after  # noqa: E731
    fit(model, task, settings, folder=folder, width=8, reporter=Quiet(), stop_requested=stop)
    return model


def moved(model):
    """Of each group, whether any of its parameters is not what it began as."""
    pairs = zip(group_parameters(model), group_parameters(new_model()), strict=True)
    return [any(not torch.equal(a, b) for a, b in zip(*both, strict=True)) for both in pairs]


@pytest.mark.parametrize("model", [new_model(), AwdLstm(AwdLstmSettings(), 30)])
def test_every_parameter_is_in_one_group(model):
    grouped = [p for group in group_parameters(model) for p in group]
    assert len(grouped) == len(set(grouped))
    assert set(grouped) == set(model.parameters())
    assert len(group_parameters(model)) > 2


@pytest.mark.parametrize(
    ("steps", "fine_tuning", "wanted"),
    [
        (3, {"unfreeze_every": 3}, [False, False, True]),
        (4, {"unfreeze_every": 3}, [False, True, True]),
        (7, {"unfreeze_every": 3}, [True, True, True]),
        (9, {"unfreeze_every": 3, "frozen": 1}, [False, True, True]),
        (2, {"frozen": 2}, [False, False, True]),
        (2, {"rate_ratio": 2.6}, [True, True, True]),
    ],
)
def test_groups_learn_from_their_step_on(tmp_path, steps, fine_tuning, wanted):
    assert moved(train(tmp_path, steps=steps, **fine_tuning)) == wanted


def test_each_group_has_its_rate():
    model = new_model()
    layers = LayerGroups(model, FineTuningSettings(rate_ratio=2.0))
    optimizer = build_optimizer(model, OptimizerSettings(weight_decay=0.1), layers)
    context = StepContext(
        model, partial(batch_loss, smoothing=0.0), optimizer, None, torch.zeros(2), ExpertLoad(),
        1.0, nullcontext,
    )  # fmt: skip
    EagerStep(context)([next(batches()).batch], lr=0.4, step=1)
    of = {p: group["lr"] for group in optimizer.param_groups for p in group["params"]}
    found = [{of[p] for p in group} for group in layers.groups]
    assert found == [{0.1}, {0.2}, {0.4}]


@pytest.mark.parametrize("stop_after", [2, 4, 7])
def test_stopped_while_it_unfreezes_and_resumed_equals_unbroken(tmp_path, stop_after):
    how = {"unfreeze_every": 3, "rate_ratio": 2.6}
    whole = train(tmp_path / "whole", **how)
    train(tmp_path / "broken", stop_after=stop_after, **how)
    resumed = train(tmp_path / "broken", **how)
    pairs = zip(resumed.parameters(), whole.parameters(), strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)


@pytest.mark.parametrize(
    ("fine_tuning", "wrong"), [({"frozen": 3}, "frozen 3: the model has 3 groups")]
)
def test_settings_that_do_not_go_with_the_model_are_refused(tmp_path, fine_tuning, wrong):
    with pytest.raises(SettingsError, match=wrong):
        train(tmp_path, **fine_tuning)


@pytest.mark.parametrize("accumulate", [1, 2])
def test_graphs_are_captured_anew_when_a_group_begins_to_learn(accumulate):
    models = []
    for captured in (False, True):
        model = new_model().eval()  # without dropout
        layers = LayerGroups(model, FineTuningSettings(unfreeze_every=3))
        optimizer = build_optimizer(model, OptimizerSettings(weight_decay=0.1), layers)
        cast = partial(torch.autocast, "cpu", torch.bfloat16)
        context = StepContext(
            model, partial(batch_loss, smoothing=0.0), optimizer, None,
            torch.zeros(2, dtype=torch.float64), ExpertLoad(), 1.0, cast,
        )  # fmt: skip
        graphs = Counted()
        step = EagerStep(context)
        if captured:
            step = CudaGraphStep(context, ExactShapes(), graphs, pytest.fail)
        stream = batches()
        for number in range(1, 10):
            if layers.freeze_for(number):
                step.forget_shapes()
            step([next(stream).batch for _ in range(accumulate)], lr=0.01, step=number)
        models.append(model)
    assert graphs.captured == 3 * (1 if accumulate == 1 else 2)
    for one, other in zip(models[0].parameters(), models[1].parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)


def test_parts_are_frozen_by_name(tmp_path):
    model, first = train(tmp_path, frozen_parts=["embedding", "layers.0"]), new_model()
    for name, weight in first.state_dict().items():
        frozen = name.startswith(("embedding.", "layers.0."))
        assert torch.equal(weight, model.state_dict()[name]) == frozen, name
    with pytest.raises(SettingsError, match="no weights of the model are in encoder; it has embed"):
        LayerGroups(new_model(), FineTuningSettings(frozen_parts=("encoder",)))
    parts = tuple(name for name, _ in new_model().named_parameters())
    with pytest.raises(SettingsError, match="nothing is left to train"):
        LayerGroups(new_model(), FineTuningSettings(frozen_parts=parts))
