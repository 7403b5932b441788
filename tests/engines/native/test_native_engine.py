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
from regard.engines.native import native_engine
from regard.engines.native.native_engine import NativeEngine, job_runner, load_search
from regard.engines.tuned_engine import EngineConfig
from regard.errors import RunError, SettingsError
from regard.layers.quantized import Int8Linear
from regard.pipelines.translator import load
from regard.recipes.run_folder import load_run

CPU = torch.device("cpu")
SENTENCES = ["Jane visite l'Afrique en septembre.", "Paul aime la mer.", "Elle danse."] * 8
GREEDY = DecodingSettings(beam=BeamSettings(size=1))


def test_worker_processes_find_what_this_process_finds(tiny_run, monkeypatch):
    pools = []

    class RememberedPool(worker_pool.WorkerPool):
        def __init__(self, *given):
            super().__init__(*given)
            pools.append(self)

    monkeypatch.setattr(native_engine, "WorkerPool", RememberedPool)
    monkeypatch.setattr(native_engine, "count_cores", lambda: 2)
    monkeypatch.setattr(native_engine, "CPU_BUDGET", 20)
    translator = load(tiny_run, device="cpu", engine="native")
    alone = [answer.candidates for answer in translator.translate(SENTENCES, GREEDY)]
    monkeypatch.setattr(worker_pool, "MIN_SECONDS", -1.0)
    together = [answer.candidates for answer in translator.translate(SENTENCES * 4, GREEDY)]
    [pool] = pools
    assert pool.started
    pool.close()
    assert together == alone * 4


def test_a_worker_searches_a_batch(tiny_run):
    run = load_run(tiny_run, device=CPU)
    ids = run.tokenizers.source.encode(SENTENCES[:2])
    job = SearchJob([ids], GREEDY, NO_CONSTRAINTS, [0, 1])
    threads = torch.get_num_threads()
    try:
        assert load_search([run.opened])(job) == search_batch([run.model], job)
    finally:
        torch.set_num_threads(threads)


def test_a_worker_refuses_changed_weights(tiny_run):
    run = load_run(tiny_run, device=CPU)
    older = run.opened._replace(stamp=(0, 0))
    with pytest.raises(RunError, match="its weights have changed since they were loaded"):
        load_search([older])


def test_workers_need_several_cores_and_runs_from_folders(tiny_run):
    run = load_run(tiny_run, device=CPU)
    assert job_runner([run], 3) is not None
    assert job_runner([run], 1) is None
    assert job_runner([run, run._replace(opened=None)], 3) is None
    moved = run._replace(model=run.model.to("meta"))
    assert job_runner([moved], 3) is None


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_a_gpu_captures_repeated_searches(tiny_run):
    run = load_run(tiny_run, device=torch.device("cuda"))
    run_jobs = NativeEngine([run])._run_jobs
    cache = run_jobs.__self__
    assert isinstance(cache, CudaGraphCache)
    sources = run.tokenizers.source.encode(["Jane visits Africa.", "A dog."])
    settings = run.recipe.decoding
    plain = search_many([SearchMember(run.model, sources)], settings, budget=10**6)
    for _ in range(3):
        answers = search_many(
            [SearchMember(run.model, sources)], settings, budget=10**6, run_jobs=run_jobs
        )
        assert [best[0].tokens for best in answers] == [best[0].tokens for best in plain]
    assert cache.failed is None
    assert cache.bytes_held > 0


def test_captured_searches_hold_an_eighth_of_a_gpu(monkeypatch):
    weights = [SimpleNamespace(device=torch.device("cuda"))]
    run = SimpleNamespace(
        opened=None,
        model=SimpleNamespace(parameters=lambda: weights),
        tokenizers=SimpleNamespace(target=SimpleNamespace(size=9)),
    )
    monkeypatch.setattr(native_engine, "CudaGraphs", lambda where: EagerReplay())
    monkeypatch.setattr(native_engine, "available_memory", lambda where: 800)
    found = job_runner([run], 3).__self__
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


@pytest.mark.parametrize(
    ("gigabytes", "parameters", "positions"),
    [
        (141, 61_000_000, 591_738),
        (141, 9_000_000, 2_151_489),
        (8, 61_000_000, 33_573),
        (2, 10, 30_517),
    ],
)
def test_the_budget_of_a_gpu_is_what_its_memory_holds(
    gigabytes, parameters, positions, monkeypatch
):
    class Model:
        """As large as that, and on a GPU."""

        def parameters(self):
            yield SimpleNamespace(device=torch.device("cuda"), numel=lambda: parameters)

    monkeypatch.setattr(native_engine, "available_memory", lambda where: gigabytes * 10**9)
    assert native_engine.default_budget([Model()]) == positions
    monkeypatch.setattr(native_engine, "available_memory", lambda where: 0)
    assert native_engine.default_budget([Model()]) == native_engine.DEFAULT_BUDGET
    assert native_engine.default_budget([torch.nn.Linear(1, 1)]) == native_engine.CPU_BUDGET


def test_a_budget_measured_on_a_cpu_is_not_used_on_a_gpu(tiny_run, monkeypatch):
    choice = EngineConfig(engine="native", precision="float32", workers=1, budget=1024)
    [run] = native_engine.NativeEngine.open_runs([tiny_run], device="cpu", weights="model")
    assert native_engine.NativeEngine([run], choice).budget == 1024
    run.model.to("meta")  # stands for a GPU
    assert native_engine.NativeEngine([run], choice).budget == native_engine.DEFAULT_BUDGET
