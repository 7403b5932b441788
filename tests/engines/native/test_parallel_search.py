import os
from types import SimpleNamespace

import pytest
import torch

from recorders import EagerReplay
from regard.batching import worker_pool
from regard.decoding.batch_search import SearchJob, SearchMember, search_batch, search_many
from regard.decoding.constraints.rules import NO_CONSTRAINTS
from regard.decoding.gpu.cuda_graph_cache import CudaGraphCache
from regard.decoding.settings import BeamSettings, DecodingSettings
from regard.engines.native import native_engine, parallel_search
from regard.engines.native.native_engine import NativeEngine
from regard.engines.native.parallel_search import load_search, make_pool
from regard.errors import RunError, SettingsError
from regard.layers.quantized import Int8Linear
from regard.pipelines.translator import load
from regard.recipes.run_folder import load_run

CPU = torch.device("cpu")
SENTENCES = ["Jane visite l'Afrique en septembre.", "Paul aime la mer.", "Elle danse."] * 8
GREEDY = DecodingSettings(beam=BeamSettings(size=1))


def test_helpers_answer_as_this_process_does(tiny_run, monkeypatch):
    monkeypatch.setattr(native_engine, "count_cores", lambda: 2)
    monkeypatch.setattr(native_engine, "CPU_BUDGET", 20)
    translator = load(tiny_run, device="cpu", engine="native")
    alone = [answer.candidates for answer in translator.translate(SENTENCES, GREEDY)]
    monkeypatch.setattr(worker_pool, "MIN_SECONDS", -1.0)
    together = [answer.candidates for answer in translator.translate(SENTENCES * 4, GREEDY)]
    assert translator._native_engine._pool.started
    translator._native_engine._pool.close()
    assert together == alone * 4


def test_what_a_helper_does_with_a_batch(tiny_run):
    run = load_run(tiny_run, device=CPU)
    ids = run.tokenizers.source.encode(SENTENCES[:2])
    job = SearchJob([ids], GREEDY, NO_CONSTRAINTS, [0, 1])
    threads = torch.get_num_threads()
    try:
        assert load_search([run.opened])(job) == search_batch([run.model], job)
    finally:
        torch.set_num_threads(threads)


def test_no_helper_has_other_weights(tiny_run):
    run = load_run(tiny_run, device=CPU)
    older = run.opened._replace(stamp=(0, 0))
    with pytest.raises(RunError, match="its weights have changed since they were loaded"):
        load_search([older])


def test_there_are_helpers_only_where_they_can_help(tiny_run):
    run = load_run(tiny_run, device=CPU)
    assert make_pool([run], 3) is not None
    assert make_pool([run], 1) is None
    assert make_pool([run, run._replace(opened=None)], 3) is None
    moved = run._replace(model=run.model.to("meta"))
    assert make_pool([moved], 3) is None


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_a_gpu_records_what_it_searched_for(tiny_run):
    run = load_run(tiny_run, device=torch.device("cuda"))
    chains = NativeEngine([run])._pool
    assert isinstance(chains, CudaGraphCache)
    sources = run.tokenizers.source.encode(["Jane visits Africa.", "A dog."])
    settings = run.recipe.decoding
    plain = search_many([SearchMember(run.model, sources)], settings, budget=10**6)
    for _ in range(3):
        answers = search_many(
            [SearchMember(run.model, sources)], settings, budget=10**6, worker_pool=chains
        )
        assert [best[0].tokens for best in answers] == [best[0].tokens for best in plain]
    assert chains.failed is None
    assert chains.bytes_held > 0


def test_records_may_hold_a_part_of_a_gpu(monkeypatch):
    weights = [SimpleNamespace(device=torch.device("cuda"))]
    run = SimpleNamespace(
        opened=None,
        model=SimpleNamespace(parameters=lambda: weights),
        tokenizers=SimpleNamespace(target=SimpleNamespace(size=9)),
    )
    monkeypatch.setattr(parallel_search, "CudaGraphs", lambda where: EagerReplay())
    monkeypatch.setattr(parallel_search, "available_memory", lambda where: 800)
    found = make_pool([run], 3)
    assert isinstance(found, CudaGraphCache)
    assert found.max_bytes == 100


def test_the_native_engine_takes_weights_in_fewer_bits(tiny_run):
    [plain] = NativeEngine.open_runs((tiny_run,), device="cpu", weights="model")
    assert plain.opened.precision == "float32"
    [run] = NativeEngine.open_runs((tiny_run,), device="cpu", weights="model", precision="int8")
    assert any(isinstance(module, Int8Linear) for module in run.model.modules())
    assert run.opened == plain.opened._replace(precision="int8")
    file = os.stat(tiny_run / "model.safetensors")
    assert run.opened.stamp == (file.st_mtime_ns, file.st_size)
    answers = load(tiny_run, device="cpu", engine="native", precision="int8").translate(SENTENCES)
    assert len(answers) == len(SENTENCES)
    with pytest.raises(
        SettingsError, match="int16 is CTranslate2's; the native engine has float32"
    ):
        NativeEngine.open_runs((tiny_run,), device="cpu", weights="model", precision="int16")
