import json

import pytest
import torch

from bench import gpu_steps, train_gpu
from bench.peers.contract import ModelShape


def test_every_step_that_is_named_is_there():
    assert set(train_gpu.STEPS) == set(gpu_steps.STEPS)
    assert {f"step: {name}" for name in train_gpu.STEPS} < set(train_gpu.STAGES)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is one")
def test_without_a_gpu_there_is_nothing_to_measure(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["train_gpu"])
    assert train_gpu.main() == 1
    assert "this measures a GPU, and torch finds none here" in capsys.readouterr().err


@pytest.mark.skipif(torch.cuda.is_available(), reason="it would not fail")
def test_a_stage_needs_a_gpu(monkeypatch, tmp_path):
    file = tmp_path / "facts.jsonl"
    monkeypatch.setattr("sys.argv", ["train_gpu", "--stage", "ceilings", "--out", str(file)])
    assert train_gpu.main() == 1
    assert "CUDA" in json.loads(file.read_text("utf-8"))["failed"]


def test_the_table_tells_what_is_wrong_and_how_fast_the_rest_is(tmp_path, capsys):
    file = tmp_path / "facts.jsonl"
    step = {"tokens_per_second": 9e5, "ms_a_step": 27.0, "host_ms_a_step": 9.0, "tflops": 330.0}
    facts = [{"stage": "check", "ok": False}]
    facts += [{"stage": "step: x", "who": name, **step} for name in (train_gpu.OURS, "x")]
    facts += [{"who": train_gpu.PEER, **step, "tokens_per_second": 4.5e5}]
    file.write_text("".join(json.dumps(fact) + "\n" for fact in facts), encoding="utf-8")
    train_gpu.summarise(file, {"check": "failed (1), 3 s"})
    shown = capsys.readouterr().out
    assert "wrong or failed: 1" in shown
    assert "900,000 tokens/s" in shown
    assert "regard, captured: 2.00 times Hugging Face Marian, compiled" in shown
    assert "the paper's 100,000 steps: 0.77 hours, 12 on its eight P100s" in shown


def test_the_table_compares_nothing_with_nobody(capsys):
    train_gpu.compare({train_gpu.PEER: 1.0})
    assert not capsys.readouterr().out
    train_gpu.compare({train_gpu.OURS: 1e6})
    assert "times" not in capsys.readouterr().out


def test_the_work_of_a_step_is_counted():
    shape = ModelShape(1, 1, 4, 2, 8, vocabulary=10)
    work = gpu_steps.Work(shape, 60, 5.0)
    (batch,) = work.batches(1)
    source, target = batch.source.mask.sum().item(), batch.num_tokens
    layers = source * (4 * 16 + 2 * 32) + target * (6 * 16 + 2 * 32) + source * 2 * 16
    at_least = 6 * (layers + target * 40)
    assert at_least < work.flops(batch) < 3 * at_least
