from contextlib import nullcontext
from functools import partial

import pytest
import torch

from regard.batching.collate import collate
from regard.models.translation.transformer import Transformer
from regard.models.translation.transformer_settings import TransformerSettings
from regard.training.loss import batch_loss
from regard.training.optimizer import OptimizerSettings, build_optimizer
from regard.training.step import (
    EagerStep,
    ExpertLoad,
    MovingAverage,
    StepContext,
    resolve_precision,
)
from regard.types import Routing, Site

SIZE = 20
SETTINGS = {"encoder_layers": 1, "decoder_layers": 1, "width": 16, "heads": 2, "feed_forward": 24}


def context():
    torch.manual_seed(1)
    model = Transformer(TransformerSettings(**SETTINGS, dropout=0.0, bias=False), SIZE, SIZE)
    optimizer = build_optimizer(model, OptimizerSettings())
    totals = torch.zeros(2, dtype=torch.float64)
    loss = partial(batch_loss, smoothing=0.1)
    return StepContext(model, loss, optimizer, None, totals, ExpertLoad(), 1.0, nullcontext)


def test_two_batches_weigh_what_one_of_both_weighs():
    one, both = context(), context()
    sources, targets = [[5, 6], [7, 8]], [[4, 9], [10, 11]]
    EagerStep(one)([collate(sources, targets)], lr=0.1, step=1)
    parts = [collate(sources[at : at + 1], targets[at : at + 1]) for at in (0, 1)]
    EagerStep(both)(parts, lr=0.1, step=1)
    torch.testing.assert_close(one.totals, both.totals)
    for left, right in zip(one.model.parameters(), both.model.parameters(), strict=True):
        torch.testing.assert_close(left, right, atol=1e-4, rtol=1e-3)


def test_a_rate_of_nothing_changes_nothing():
    it = context()
    before = [p.detach().clone() for p in it.model.parameters()]
    EagerStep(it)([collate([[5]], [[6]])], lr=0.0, step=1)
    assert all(map(torch.equal, before, it.model.parameters()))
    assert all(p.grad is None for p in it.model.parameters())


def test_moving_average_forgets_its_start():
    weight = torch.zeros(1)
    average = MovingAverage([weight], 0.9)
    weight.fill_(1.0)
    for step in range(1, 200):
        average.update(step)
    torch.testing.assert_close(average.shadow[0], torch.ones(1))


def test_moving_average_is_the_formula_once_warm():
    weight = torch.zeros(1)
    average = MovingAverage([weight], 0.9)
    weight.fill_(1.0)
    average.update(10**6)
    torch.testing.assert_close(average.shadow[0], torch.tensor([0.1]))


def routing(part, layer, shares):
    return Routing(Site(part, layer), torch.tensor(0.0), torch.tensor(shares))


def test_each_layer_says_how_busy_and_how_idle_its_experts_were():
    use = ExpertLoad()
    use.add([routing("encoder", 1, [0.25, 0.25, 0.5, 0.0]), routing("decoder", 0, [0.5, 0.5])])
    use.add([routing("encoder", 1, [0.25, 0.35, 0.4, 0.0]), routing("decoder", 0, [0.9, 0.1])])
    assert use.pop_metrics() == pytest.approx(
        {
            "experts/encoder-1/busiest": 4 * 0.45,
            "experts/encoder-1/idle": 1,
            "experts/decoder-0/busiest": 2 * 0.7,
            "experts/decoder-0/idle": 0,
        }
    )


def test_what_was_taken_is_forgotten():
    use = ExpertLoad()
    assert use.pop_metrics() == {}
    use.add([routing("encoder", 1, [1.0, 0.0])])
    use.pop_metrics()
    use.add([routing("encoder", 1, [0.0, 1.0])])
    assert use.pop_metrics()["experts/encoder-1/busiest"] == 2
    assert use.pop_metrics() == {}


def test_a_tenth_of_a_fair_share_is_not_idle():
    use = ExpertLoad()
    use.add([routing("decoder", 0, [0.06, 0.94])])
    assert use.pop_metrics()["experts/decoder-0/idle"] == 0
    use.add([routing("decoder", 0, [0.04, 0.96])])
    assert use.pop_metrics()["experts/decoder-0/idle"] == 1


CPU = torch.device("cpu")


@pytest.mark.parametrize("has", [True, False])
@pytest.mark.parametrize("name", ["_is_avx512_bf16_supported", "_is_amx_tile_supported"])
def test_auto_is_bfloat16_on_cpus_that_have_it(monkeypatch, name, has):
    for one in ("_is_avx512_bf16_supported", "_is_amx_tile_supported"):
        monkeypatch.setattr(torch.cpu, one, lambda one=one: has and one == name)
    assert resolve_precision("auto", CPU) == ("bfloat16" if has else "float32")


@pytest.mark.parametrize(("capability", "wanted"), [((9, 0), "bfloat16"), ((7, 5), "float32")])
def test_auto_is_bfloat16_on_gpus_that_have_it(monkeypatch, capability, wanted):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: capability)
    assert resolve_precision("auto", torch.device("cuda")) == wanted


def test_auto_is_float32_on_devices_nobody_has_measured():
    assert resolve_precision("auto", torch.device("mps")) == "float32"


def test_what_is_asked_for_is_taken():
    assert resolve_precision("float32", CPU) == "float32"
    assert resolve_precision("bfloat16", CPU) == "bfloat16"
