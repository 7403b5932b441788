from itertools import islice

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import regard
from forecasts import Quiet, forecast_recipe, train_forecaster, train_recipe
from regard.batching.sampler import StreamPosition
from regard.errors import CorpusError, RunError, SettingsError
from regard.recipes.open_run import open_run
from regard.recipes.recipe_files import load_recipe
from regard.tasks.forecast.task import Forecast

SHELF = {"fibonacci": 11, "fibonacci-attention": 33, "fibonacci-attention-softmax": 33}


@pytest.fixture
def task(tmp_path):
    (tmp_path / "data").mkdir()
    task = Forecast(forecast_recipe(), tmp_path)
    task.prepare(print, resumed=False)
    return task


def test_an_epoch_has_every_window_once_and_any_place_in_it_can_be_resumed(task):
    stream = list(islice(task.batches(StreamPosition(0, 0)), 12))
    per_epoch = -(-len(task.targets["train"]) // 8)
    assert sum(one.batch.num_labels for one in stream[:per_epoch]) == len(task.targets["train"])
    assert stream[per_epoch - 1].next_position == (1, 0)
    for begun in (3, per_epoch):
        again = list(islice(task.batches(stream[begun - 1].next_position), 4))
        for one, other in zip(again, stream[begun:], strict=False):
            assert one.next_position == other.next_position
            tensors = zip(one.batch.tensors(), other.batch.tensors(), strict=True)
            assert all(torch.equal(x, y) for x, y in tensors)


def test_labels_are_in_the_scale_of_their_windows(task):
    batch, windows = task.cut(np.array([7, 20]), np.array([2, 6]))
    values = task.series.values[:, 0]
    wanted = [values[7] / values[6], values[20] / values[19]]
    np.testing.assert_allclose(batch.labels[:, 0], wanted, rtol=1e-6)
    assert batch.inputs.values[0, :, 0].tolist()[:4] == [0] * 4
    np.testing.assert_allclose(windows.scale.factor[:, 0], [values[6], values[19]])


def test_the_loss_is_the_mean_squared_error_that_validation_selects_by(task):
    model = task.new_model().eval()
    training = task.training(model)
    assert training.selection[:2] == ("mse", True)
    batch, _ = task.cut(task.targets["valid"], task.windows.full_lengths(task.targets["valid"]))
    loss = training.loss(model, batch)
    wanted = torch.nn.functional.mse_loss(model(batch.inputs), batch.labels, reduction="sum")
    torch.testing.assert_close(loss.loss, wanted)


def test_a_run_learns_and_says_how_well(tmp_path):
    reporter = Quiet()
    path = train_forecaster(tmp_path / "run", "training.steps=300", reporter=reporter)
    assert reporter.summary["series"] == "fibonacci: 60 time steps of fibonacci"
    run = open_run(path, tasks=["forecast"], device=torch.device("cpu"))
    found = run.task.evaluate(run.model, "test").numbers
    assert found["mse"] < 0.01 * found["mse of the last number"]
    assert "simple-rnn, 19 parameters" in (path / "card.md").read_text()
    with pytest.raises(RunError, match="its task is forecast, not chat"):
        open_run(path, tasks=["chat"], device=torch.device("cpu"))


@pytest.mark.parametrize("name", SHELF)
def test_recipes_of_the_shelf_have_the_lectures_parameters_in_their_file(name, tmp_path):
    path = train_recipe(load_recipe(name, ["training.steps=1"]), tmp_path / name)
    weights = load_file(path / "model.safetensors")
    assert sum(tensor.numel() for tensor in weights.values()) == SHELF[name]


@pytest.mark.slow
def test_the_recipe_forecasts_13_within_a_hundredth(tmp_path):
    path = train_recipe(load_recipe("fibonacci-attention"), tmp_path / "run")
    forecaster = regard.load(path, device="cpu")
    for size in (1, 1e-9, 1e100):
        found = forecaster([size * number for number in (1, 1, 2, 3, 5, 8)]).value
        assert abs(found / (13 * size) - 1) < 0.01


def test_a_table_is_kept_in_the_run(tmp_path):
    table = tmp_path / "own.csv"
    rows = [f"{n},{n % 5},{2 * n}" for n in range(60)]
    table.write_text("\n".join(["day,wet,warm", *rows]))
    overrides = [f"corpus={{file: {table}, columns: [wet, warm], window: 6, shortest: 3}}"]
    path = train_forecaster(tmp_path / "run", *overrides)
    table.unlink()
    run = open_run(path, tasks=["forecast"], device=torch.device("cpu"))
    assert run.task.series.columns == ("wet", "warm")
    assert run.task.series.values[7].tolist() == [2, 14]
    assert run.model(run.task.cut(np.array([9]), np.array([4]))[0].inputs).shape == (1, 2)


def test_settings_that_do_not_fit_are_told():
    with pytest.raises(SettingsError, match=r"model\.time_steps 6 must be corpus\.window 8"):
        forecast_recipe("corpus.window=8")
    with pytest.raises(SettingsError, match=r"corpus\.windw: unknown key; did you mean 'window'"):
        forecast_recipe("corpus.windw=8")


def test_a_table_that_is_too_short_is_told_before_anything_is_written(tmp_path):
    table = tmp_path / "own.csv"
    table.write_text("1\n2\n3\n")
    with pytest.raises(CorpusError, match="too short: its 3 numbers"):
        train_forecaster(tmp_path / "run", f"corpus={{file: {table}, window: 6}}")
    assert not (tmp_path / "run" / "data" / "series.csv").exists()


def test_two_runs_are_compared_on_the_same_windows(tmp_path):
    paths = [
        train_forecaster(tmp_path / name, *options)
        for name, *options in (
            ("long",),
            ("short", "training.steps=5"),
            ("other", "corpus.scaling=window-minmax"),
        )
    ]
    long, short, other = (
        open_run(path, tasks=["forecast"], device=torch.device("cpu")) for path in paths
    )
    found = long.task.compare(long.model, short.task, short.model, "test")
    assert [one.name for one in found] == ["mse", "mae"]
    assert found[0].second == pytest.approx(long.task.evaluate(long.model, "test").numbers["mse"])
    assert found[0].first == pytest.approx(short.task.evaluate(short.model, "test").numbers["mse"])
    with pytest.raises(SettingsError, match="forecasts other test windows: a test needs the same"):
        long.task.compare(long.model, other.task, other.model, "test")
