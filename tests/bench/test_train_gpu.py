import json

import pytest
import torch

from bench import gpu_steps, train_gpu
from bench.peers.contract import ModelShape
from regard.kernels import cross_entropy, dispatch


def test_every_contender_has_a_step():
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


def test_the_table_shows_failures_speeds_and_gains(tmp_path, capsys):
    file = tmp_path / "facts.jsonl"
    step = {"tokens_per_second": 9e5, "ms_a_step": 27.0, "host_ms_a_step": 9.0, "tflops": 330.0}
    facts = [{"stage": "check", "ok": False}]
    facts += [{"stage": "step: x", "who": name, **step} for name in (train_gpu.OURS, "x")]
    peers = zip(train_gpu.PEERS, (6e5, 4.5e5), strict=True)
    facts += [{"who": peer, **step, "tokens_per_second": rate} for peer, rate in peers]
    speeds = {"least": 8e5, "most": 9e5, "rounds": 9}
    facts += [
        {"without": "nothing", "median": 8.8e5, "times": 1.0, **speeds},
        {"without": "fused_add_norm", "median": 8e5, "times": 0.9, **speeds},
        {"without": "cross_entropy", "median": 8.75e5, "times": 0.99, **speeds},
    ]
    file.write_text("".join(json.dumps(fact) + "\n" for fact in facts), encoding="utf-8")
    train_gpu.summarise(file, {"check": "failed (1), 3 s"})
    shown = capsys.readouterr().out
    assert "wrong or failed: 1" in shown
    assert "900,000 tokens/s" in shown
    assert "regard, captured: 1.50 times packed flash attention, compiled" in shown
    assert "regard, captured: 2.00 times Hugging Face Marian, compiled" in shown
    assert "the paper's 100,000 steps: 0.77 hours, 12 on its eight P100s" in shown
    assert "9 alternating rounds" in shown
    lines = {line.split("  ")[0]: line for line in shown.splitlines()}
    assert lines["nothing"].endswith("+0.0%")
    assert lines["fused_add_norm"].endswith("+11.1%")
    assert lines["cross_entropy"].endswith("+1.0%  (below 3%)")


def test_without_the_peer_nothing_is_compared(capsys):
    train_gpu.compare({train_gpu.PEERS[0]: 1.0})
    assert not capsys.readouterr().out
    train_gpu.compare({train_gpu.OURS: 1e6})
    assert "times" not in capsys.readouterr().out


def test_the_flops_of_a_step_are_counted():
    shape = ModelShape(1, 1, 4, 2, 8, vocabulary=10)
    work = gpu_steps.Workload(shape, 60, 5.0)
    (batch,) = work.batches(1)
    source, target = batch.inputs.mask.sum().item(), batch.num_labels
    layers = source * (4 * 16 + 2 * 32) + target * (6 * 16 + 2 * 32) + source * 2 * 16
    at_least = 6 * (layers + target * 40)
    assert at_least < work.flops(batch) < 3 * at_least


def test_a_part_is_left_out_while_its_step_is_built():
    for kernel in gpu_steps.TRAINING_KERNELS:
        with gpu_steps.without(kernel):
            assert dispatch.disabled == {kernel}
    assert not dispatch.disabled
    with gpu_steps.without("cross_entropy of whole rows"):
        assert cross_entropy.MAX_WHOLE_ROW == 0
    with gpu_steps.without("nothing"):
        assert cross_entropy.MAX_WHOLE_ROW > 0
