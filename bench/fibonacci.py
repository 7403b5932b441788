"""The lectures' Fibonacci experiment over many seeds: without attention, and with both kinds of it.

    OMP_NUM_THREADS=1 python -m bench fibonacci [--seeds N] [--epochs N] [--batch N] [--json FILE]

20 time steps, 2 units, mean squared error, Adam with a learning rate of 1e-3; the split of the
tutorial that the lectures cite (826 windows to train on, 354 to test with), no selection by
validation. Runs of one seed are paired: the recurrent and the output layer begin with the same
weights, and windows come in the same order. All seeds of a kind are trained at once, as one stack.
Once with the lectures' scaling, and once with each window scaled by itself. Prints Markdown: the
test error of each kind, and its difference from the network without attention, with 95% intervals
by bootstrap over seeds.
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.func import functional_call, stack_module_state, vmap

from regard.atomic_io import write_atomic
from regard.models.series.recurrent import SimpleRnn, SimpleRnnSettings
from regard.tasks.forecast.series import (
    Scaling,
    SeriesSettings,
    SeriesSplitSettings,
    SeriesWindows,
    build_series,
    split_targets,
)
from regard.types import Series

KINDS = {"plain": "none", "linear attention": "linear", "softmax attention": "softmax"}
SCALINGS: tuple[Scaling, ...] = ("minmax", "window-maxabs")
LEARNING_RATE = 1e-3
RESAMPLES = 10_000
TINY = 1e-6
"""Targets below this are as good as 0 to a mean squared error."""


class Split(NamedTuple):
    """Windows and the numbers behind them, scaled, as a model sees them."""

    values: Tensor  # (N, S, 1)
    labels: Tensor  # (N, 1)


def load_splits(scaling: Scaling) -> tuple[Split, Split]:
    """The windows to train on and those to test with."""
    split = SeriesSplitSettings(order="random", valid=0)
    settings = SeriesSettings(name="fibonacci", scaling=scaling, split=split)
    series = build_series(settings)
    windows, targets = SeriesWindows(settings, series), split_targets(settings, series)
    found = []
    for part in (targets["train"], targets["test"]):
        values, _, scale = windows.cut(series.values, part, windows.full_lengths(part))
        labels = scale.apply(series.values[part])
        found.append(Split(*(torch.from_numpy(x).float() for x in (values, labels))))
    return found[0], found[1]


def build(attention: str, seed: int) -> SimpleRnn:
    """A model whose recurrent and output layer begin alike with every kind of attention."""
    torch.manual_seed(seed)
    plain = SimpleRnn(SimpleRnnSettings(), 1)
    model = SimpleRnn(SimpleRnnSettings.model_validate({"attention": attention}), 1)
    model.load_state_dict(plain.state_dict(), strict=False)
    return model


def orders(seeds: int, rows: int, epochs: int, batch: int) -> Iterator[NDArray[np.int64]]:
    """Rows of each step (seeds, batch), in an order of its own for each seed and epoch."""
    for epoch in range(epochs):
        shuffled = np.stack(
            [np.random.default_rng([seed, epoch]).permutation(rows) for seed in range(seeds)]
        )
        for first in range(0, rows, batch):
            yield shuffled[:, first : first + batch]


def measure(
    attention: str, train: Split, test: Split, *, seeds: int, epochs: int, batch: int
) -> list[float]:
    """The mean squared error on the test windows after training, of each seed."""
    models = [build(attention, seed) for seed in range(seeds)]
    parameters, buffers = stack_module_state(list(models))  # each (seeds, ...)
    mask = torch.ones(train.values.shape[1], dtype=torch.bool)  # (S,)

    def forecast(weights: Any, values: Tensor) -> Tensor:
        inputs = Series(values, mask.expand(len(values), -1))
        answer: Tensor = functional_call(models[0], (weights, buffers), (inputs,))
        return answer

    optimizer = torch.optim.Adam(parameters.values(), LEARNING_RATE, eps=1e-7)  # as Keras has it
    for chosen in orders(seeds, len(train.labels), epochs, batch):
        rows = torch.from_numpy(chosen)
        found = vmap(forecast)(parameters, train.values[rows])  # (seeds, batch, 1)
        # of each seed the mean, and their sum: no seed's gradient depends on another's
        loss = (found - train.labels[rows]).square().mean((1, 2)).sum()
        optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward(loss)
        optimizer.step()
    with torch.inference_mode():
        found = vmap(forecast, in_dims=(0, None))(parameters, test.values)  # (seeds, N, 1)
        errors: list[float] = (found - test.labels).double().square().mean((1, 2)).tolist()
        return errors


def interval(figures: Sequence[float]) -> tuple[float, float]:
    """The 95% interval of a mean, by bootstrap."""
    numbers, random = np.array(figures), np.random.default_rng(0)
    means = numbers[random.integers(len(numbers), size=(RESAMPLES, len(numbers)))].mean(1)
    low, high = np.quantile(means, (0.025, 0.975))
    return float(low), float(high)


def report(errors: dict[str, list[float]]) -> None:
    """Print a row for each kind."""
    plain = errors["plain"]
    columns = "test MSE, mean | median | least | most | minus plain (95% interval) | lower in"
    print(f"| | {columns} |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for kind, found in errors.items():
        cells = [fmean(found), median(found), min(found), max(found)]
        line = f"| {kind} | {' | '.join(f'{cell:.3g}' for cell in cells)} |"
        if kind == "plain":
            print(f"{line} | |")
            continue
        gaps = [one - other for one, other in zip(found, plain, strict=True)]
        low, high = interval(gaps)
        lower = sum(gap < 0 for gap in gaps)
        print(
            f"{line} {fmean(gaps):+.2g} ({low:+.2g} to {high:+.2g}) "
            f"| {lower} of {len(gaps)} seeds |"
        )


def main() -> int:
    """Train, test and print."""
    parser = argparse.ArgumentParser(description="Fibonacci with and without attention.")
    parser.add_argument("--seeds", type=int, default=30, help="seeds of each kind (%(default)s)")
    parser.add_argument("--epochs", type=int, default=30, help="epochs (%(default)s)")
    parser.add_argument("--batch", type=int, default=32, help="windows of a step (%(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there")
    asked = parser.parse_args()
    found: dict[str, dict[str, list[float]]] = {}
    for scaling in SCALINGS:
        train, test = load_splits(scaling)
        tiny = int((test.labels < TINY).sum())
        print(f"\n{scaling}: {len(train.labels)} windows to train on, {len(test.labels)} to test")
        print(
            f"with, of which {tiny} have a target below {TINY:g}; the mean squared error of always"
        )
        print(f"0 is {float(test.labels.double().square().mean()):.3g}.\n")
        found[scaling] = {
            kind: measure(
                attention, train, test, seeds=asked.seeds, epochs=asked.epochs, batch=asked.batch
            )
            for kind, attention in KINDS.items()
        }
        report(found[scaling])
    if asked.json:
        write_atomic(asked.json, json.dumps(found, indent=1).encode())
    return 0
