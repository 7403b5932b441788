import math

import pytest
import torch

from regard.training.optimizer import (
    OptimizerSettings,
    ScheduleSettings,
    build_optimizer,
    learning_rate,
)


def rates(shape, steps=1000, warmup=100, peak=1.0, **more):
    schedule = ScheduleSettings(shape=shape, warmup=warmup, **more)
    return [
        learning_rate(step, peak, schedule, width=512, steps=steps) for step in range(1, steps + 1)
    ]


def test_paper_is_equation_three():
    want = [512**-0.5 * min(n**-0.5, n * 100**-1.5) for n in range(1, 1001)]
    assert rates("paper") == pytest.approx(want)


@pytest.mark.parametrize("shape", ["paper", "inverse_sqrt", "cosine", "constant"])
def test_rises_to_its_peak_in_a_straight_line(shape):
    found = rates(shape)
    assert found.index(max(found)) == 99
    assert found[49] == pytest.approx(max(found) / 2)


def test_inverse_sqrt_halves_when_steps_grow_fourfold():
    found = rates("inverse_sqrt")
    assert found[399] == pytest.approx(0.5)


def test_cosine_ends_at_its_floor():
    assert rates("cosine")[-1] == pytest.approx(0.0)
    assert rates("cosine", floor=0.1)[-1] == pytest.approx(0.1)
    assert rates("cosine")[549] == pytest.approx((1 + math.cos(math.pi / 2)) / 2, abs=1e-3)


def test_constant_stays():
    assert set(rates("constant")[99:]) == {1.0}


def test_no_warmup_starts_at_the_peak():
    assert rates("constant", warmup=0)[0] == 1.0


def test_decay_spares_biases_and_norms():
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.LayerNorm(4))
    optimizer = build_optimizer(model, OptimizerSettings(weight_decay=0.1))
    decayed = {id(p) for g in optimizer.param_groups if g["weight_decay"] for p in g["params"]}
    assert decayed == {id(model[0].weight)}


def test_the_slanted_triangle_is_equation_three_of_ulmfit():
    steps, cut_fraction, ratio = 100, 0.1, 32
    cut = math.floor(steps * cut_fraction)

    def share(t):
        return t / cut if t < cut else 1 - (t - cut) / (cut * (1 / cut_fraction - 1))

    schedule = ScheduleSettings(shape="slanted_triangle")
    found = [learning_rate(t, 0.01, schedule, width=8, steps=steps) for t in range(1, steps + 1)]
    want = [0.01 * (1 + share(t) * (ratio - 1)) / ratio for t in range(1, steps + 1)]
    assert found == pytest.approx(want)


@pytest.mark.parametrize("steps", [1, 2, 7])
def test_a_short_slanted_triangle_has_its_peak(steps):
    schedule = ScheduleSettings(shape="slanted_triangle")
    found = [learning_rate(t, 1.0, schedule, width=8, steps=steps) for t in range(1, steps + 1)]
    assert found[0] == max(found) == 1.0


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        ({"shape": "slanted_triangle", "warmup": 10}, "warmup 10 has no effect"),
        ({"shape": "cosine", "ratio": 8}, "ratio 8.0 has no effect"),
    ],
)
def test_settings_of_other_shapes_are_refused(given, wrong):
    with pytest.raises(ValueError, match=wrong):
        ScheduleSettings(**given)
