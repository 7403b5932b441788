from types import SimpleNamespace

import pytest

from regard.tasks.translation.trial.device_plan import exchange_seconds, plan_devices, state_bytes
from regard.tasks.translation.trial.dry_run import StepStats
from tiny import tiny_recipe

STEPS = StepStats(
    parameters=1_000_000_000,
    batch_tokens=4096,
    step_seconds=0.5,
    tokens_per_second=8000.0,
    memory=20_000_000_000,
    checkpoint=1,
    gathered=100_000_000,
)


def plan(devices, bandwidth=10.0, *settings):
    trial = SimpleNamespace(steps=STEPS, recipe=tiny_recipe(*settings), device="a GPU")
    return plan_devices(trial, devices, bandwidth)


def test_an_exchange_moves_each_gradient_twice_but_for_a_share():
    assert exchange_seconds(4_000_000_000, 2, 10.0) == pytest.approx(0.4, rel=1e-3)
    assert exchange_seconds(4_000_000_000, 8, 10.0) == pytest.approx(0.7, rel=1e-3)
    assert exchange_seconds(4_000_000_000, 2, 10.0, passes=3) == pytest.approx(0.6, rel=1e-3)
    assert exchange_seconds(4_000_000_000, 1, 10.0) == 0


def test_a_plan_goes_from_one_device_to_all():
    rows = plan(6).rows
    assert [row.devices for row in rows] == [1, 2, 4, 6]
    assert rows[0].step_seconds == 0.5
    assert rows[0].efficiency == 1
    assert rows[0].sharded_memory == rows[0].memory
    assert rows[1].step_seconds == pytest.approx(0.9, rel=1e-3)
    assert rows[1].tokens_per_second == pytest.approx(2 * 8000 * 0.5 / 0.9, rel=1e-3)
    # 16 bytes of each parameter are divided, 4 GB are not; 100 million are whole, with gradients
    assert rows[1].sharded_memory == 4_000_000_000 + 8_000_000_000 + 800_000_000


@pytest.mark.parametrize(
    ("settings", "numbers"),
    [
        ([], 4),
        (["training.optimizer.kind=muon"], 4),
        (["training.optimizer.kind=sgd"], 2),
        (["training.optimizer={kind: sgd, momentum: 0.9}"], 3),
        (["training.moving_average=0.999"], 5),
    ],
)
def test_state_has_so_many_numbers_of_each_parameter(settings, numbers):
    assert state_bytes(1000, tiny_recipe(*settings).training) == 4000 * numbers


def test_a_step_is_divided_until_the_exchange_takes_longer_than_the_rest():
    assert plan(2).most_devices == 1  # 0.25 s each, and 0.4 s of exchange
    assert plan(2, 100.0).most_devices == 4  # 0.125 s and 0.06 s; on eight 0.0625 s and 0.07 s
