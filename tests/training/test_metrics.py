from regard.training.metrics import Metrics, read_metrics


def test_taken_up_it_forgets_what_came_after(tmp_path):
    first = Metrics(tmp_path, 0)
    for step in (1, 2, 3):
        first.add("train", step, {"loss": float(step)})
    first.close()
    second = Metrics(tmp_path, 2)
    second.add("train", 3, {"loss": 9.0})
    second.close()
    found = [(r["step"], r["loss"]) for r in read_metrics(tmp_path / "metrics.jsonl")]
    assert found == [(1, 1.0), (2, 2.0), (3, 9.0)]


def test_a_line_cut_short_is_left_out(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"kind": "train", "step": 1, "loss": 2.0}\n{"kind": "tr')
    assert [r["step"] for r in read_metrics(path)] == [1]


def test_tensorboard_gets_the_same(tmp_path):
    metrics = Metrics(tmp_path, 0)
    metrics.add("valid", 1, {"bleu": 20.0})
    metrics.close()
    assert any(path.stat().st_size > 100 for path in (tmp_path / "tensorboard").iterdir())
