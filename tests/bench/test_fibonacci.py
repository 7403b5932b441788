"""Thirty seeds at once are thirty seeds one by one."""

import numpy as np
import pytest
import torch

from bench.fibonacci import LEARNING_RATE, Split, build, interval, load_splits, measure, orders
from regard.types import Series


def test_the_windows_are_the_lectures():
    train, test = load_splits("minmax")
    assert (len(train.labels), len(test.labels)) == (826, 354)
    assert int((test.labels < 1e-6).sum()) == 346


@pytest.mark.parametrize("attention", ["none", "linear", "softmax"])
def test_a_stack_of_seeds_is_each_seed_alone(attention):
    train, test = load_splits("window-maxabs")
    train = Split(*(x[:20] for x in train))
    together = measure(attention, train, test, seeds=3, epochs=2, batch=8)
    model = build(attention, 2)
    optimizer = torch.optim.Adam(model.parameters(), LEARNING_RATE, eps=1e-7)

    def forecast(values):
        return model(Series(values, torch.ones(values.shape[:2], dtype=torch.bool)))

    for rows in orders(3, 20, 2, 8):
        chosen = torch.from_numpy(rows[2])
        loss = (forecast(train.values[chosen]) - train.labels[chosen]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        alone = (forecast(test.values) - test.labels).square().mean()
    assert together[2] == pytest.approx(float(alone), rel=1e-4)


def test_seeds_are_paired():
    plain, other = (build(attention, 5).state_dict() for attention in ("none", "linear"))
    assert all(torch.equal(plain[name], other[name]) for name in plain)
    assert (next(orders(2, 9, 1, 4)) == next(orders(2, 9, 1, 4))).all()


def test_an_interval_holds_the_mean():
    figures = np.random.default_rng(0).normal(3, 1, 200).tolist()
    low, high = interval(figures)
    assert low < 3 < high
    assert high - low < 0.4
