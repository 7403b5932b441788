import errno

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from regard import atomic_io
from regard.errors import StorageError
from regard.training.metric_log import MetricLog, read_metrics


def test_taken_up_it_forgets_what_came_after(tmp_path):
    first = MetricLog(tmp_path, 0)
    for step in (1, 2, 3):
        first.add("train", step, {"loss": float(step)})
    second = MetricLog(tmp_path, 2)
    second.add("train", 3, {"loss": 9.0})
    found = [(r["step"], r["loss"]) for r in read_metrics(tmp_path / "metrics.jsonl")]
    assert found == [(1, 1.0), (2, 2.0), (3, 9.0)]


def test_a_line_cut_short_is_left_out(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"kind": "train", "step": 1, "loss": 2.0}\n{"kind": "tr')
    assert [r["step"] for r in read_metrics(path)] == [1]


def on_board(folder):
    """What TensorBoard shows: of each name, steps and numbers."""
    board = EventAccumulator(str(folder / "tensorboard")).Reload()
    return {
        name: [(event.step, event.value) for event in board.Scalars(name)]
        for name in board.Tags()["scalars"]
    }


def test_tensorboard_gets_the_same(tmp_path):
    metrics = MetricLog(tmp_path, 0)
    metrics.add("train", 1, {"loss": 3.5, "epoch": 0})
    metrics.add("valid", 1, {"loss": 3.0})
    metrics.add("train", 2, {"loss": 2.5, "epoch": 1})
    assert on_board(tmp_path) == {
        "train/loss": [(1, 3.5), (2, 2.5)],
        "train/epoch": [(1, 0.0), (2, 1.0)],
        "valid/loss": [(1, 3.0)],
    }


def test_tensorboard_too_forgets_what_came_after(tmp_path):
    for begun, numbers in ((0, (1.0, 2.0, 3.0)), (1, (8.0, 9.0))):
        metrics = MetricLog(tmp_path, begun)
        for step, loss in enumerate(numbers, start=begun + 1):
            metrics.add("train", step, {"loss": loss})
    assert on_board(tmp_path) == {"train/loss": [(1, 1.0), (2, 8.0), (3, 9.0)]}


def test_every_line_is_json(tmp_path):
    MetricLog(tmp_path, 0).add("train", 1, {"loss": 2.0, "gain": float("inf")})
    assert '"loss": 2.0, "gain": null}' in (tmp_path / "metrics.jsonl").read_text()
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"kind": "valid", "step": 1, "loss": Infinity}\n[]\n{"step": 1e999}\n{"st')
    assert [one["kind"] for one in read_metrics(tmp_path / "metrics.jsonl")] == ["train"]


@pytest.mark.parametrize("name", ["metrics.jsonl", "events.out"])
def test_a_full_disk_is_told_of(tmp_path, name, monkeypatch):
    metrics, real = MetricLog(tmp_path, 0), atomic_io.open_regular

    def full(path, flags):
        if path.name.startswith(name):
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(path, flags)

    monkeypatch.setattr(atomic_io, "open_regular", full)
    with pytest.raises(StorageError, match=f"{name}.*: the disk is full"):
        metrics.add("train", 1, {"loss": 1.0})
