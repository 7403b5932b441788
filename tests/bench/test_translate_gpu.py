import json

import pytest
import torch

from bench import gpu_search, gpu_small, translate_gpu
from bench.peers import is_installed
from recorders import EagerReplay
from regard.errors import RunError
from regard.kernels import dispatch


def facts(file):
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]


def test_both_sides_search_for_the_same(tiny_run, tmp_path, monkeypatch):
    out = tmp_path / "facts.jsonl"
    given = ["--model", str(tiny_run), "--sentences", "12", "--device", "cpu", "--rounds", "1"]
    given += ["--budgets", "200", "--peer-batches", "5", "--beam", "2", "--out", str(out)]
    stages = ["prepare", "regard float32"]
    if is_installed("hugging_face"):
        stages.append("Hugging Face float32")
    for stage in stages:
        monkeypatch.setattr("sys.argv", ["translate_gpu", *given, "--stage", stage])
        assert translate_gpu.main() == 0
    found = facts(out)
    assert found[0]["sentences"] == 12
    rated = [fact for fact in found if "sentences_per_second" in fact]
    assert [fact["how"] for fact in rated if fact["whole"]][:1] == ["budget 200"]
    if is_installed("hugging_face"):
        (compared,) = (fact for fact in found if "equal" in fact)
        assert compared["equal"] == compared["compared"] == 12


def test_small_batches_are_timed_in_each_way(tiny_run, tmp_path, monkeypatch, capsys):
    out = tmp_path / "facts.jsonl"
    given = ["--model", str(tiny_run), "--sentences", "12", "--device", "cpu", "--rounds", "1"]
    given += ["--small", "1", "3", "--beam", "2", "--out", str(out)]
    monkeypatch.setattr(gpu_small, "CudaGraphs", lambda device: EagerReplay())
    for stage in ("prepare", "small float32"):
        monkeypatch.setattr("sys.argv", ["translate_gpu", *given, "--stage", stage])
        assert translate_gpu.main() == 0
    found = [fact for fact in facts(out) if "small" in fact]
    assert {fact["small"] for fact in found} == {1, 3}
    timed = [fact for fact in found if "who" in fact]
    assert {fact["who"] for fact in timed} >= {"regard, first", "regard, replayed"}
    assert all(fact["same_as_first"] == fact["compared"] for fact in timed)
    assert all(fact["graphs"] > 0 for fact in found if "who" not in fact)
    translate_gpu.summarise(out)
    shown = capsys.readouterr().out
    assert "1 at a time  regard, replayed" in shown
    assert "steps recorded in" in shown


def test_something_must_be_prepared(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.argv", ["translate_gpu", "--out", str(tmp_path / "facts.jsonl")])
    with pytest.raises(RunError, match="nothing is prepared there; name a run with --model"):
        translate_gpu.main()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is one")
def test_without_a_gpu_it_says_what_to_do(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["translate_gpu", "--model", str(tmp_path)])
    assert translate_gpu.main() == 1
    assert "torch finds no GPU here; --device cpu tries it all out" in capsys.readouterr().err


def test_the_table_has_the_ratio_and_what_failed(tmp_path, capsys):
    out = tmp_path / "facts.jsonl"
    common = {"precision": "float32", "sentences": 9, "tokens_per_second": 5.0}
    lines = [
        {**common, "who": "regard", "how": "budget 8", "sentences_per_second": 10.0, "whole": True},
        {**common, "who": "regard", "how": "budget 8", "sentences_per_second": 60.0, "whole": True},
        {**common, "who": "regard", "how": "budget 8", "sentences_per_second": 65.0, "whole": True},
        {**common, "who": "other", "how": "batch 2", "sentences_per_second": 90.0, "whole": False},
        {**common, "who": "other", "how": "batch 4", "sentences_per_second": 20.0, "whole": True},
        {"precision": "float32", "compared": 9, "equal": 8},
        {"failed": "batch 8: out of memory"},
    ]
    out.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    translate_gpu.summarise(out)
    shown = capsys.readouterr().out
    assert "float32: 3.00 times Hugging Face at its best" in shown
    assert "8 of 9 answers are equal" in shown
    assert "FAILED" in shown


def test_kernels_that_another_one_is_tried_without_come_back_when_it_fails():
    with pytest.raises(RuntimeError), gpu_search._without("decode_attention", "topk_logits"):
        raise RuntimeError("the other one")
    assert not {"decode_attention", "topk_logits"} & dispatch.disabled
