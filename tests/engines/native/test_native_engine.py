import os
from copy import copy
from types import SimpleNamespace

import pytest
import torch

from recorders import EagerReplay
from regard.batching import worker_pool
from regard.decoding.batch_search import SearchJob, SearchMember, search_batch, search_many
from regard.decoding.constraints.rules import NO_CONSTRAINTS
from regard.decoding.gpu.cuda_graph_cache import CudaGraphCache
from regard.decoding.settings import BeamSettings, DecodingSettings
from regard.engines.engine_tuning import EngineConfig
from regard.engines.native import native_engine
from regard.engines.native.native_engine import (
    NativeEngine,
    check_interventions,
    job_runner,
    load_search,
)
from regard.errors import RunError, SettingsError
from regard.inspection.interventions import Flattened, ForcedPositions, Silenced
from regard.layers.quantized import Int8Linear
from regard.recipes.open_run import open_run
from regard.tasks.translation.pipeline import load
from regard.text.build import Tokenizers, train_tokenizer
from regard.text.preprocess import TokenizedLine, tokenize_lines
from regard.text.segmentation import Segment, Segments
from regard.text.settings import TokenizerSettings

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
    run = open_run(tiny_run, device=CPU)
    ids = run.tokenizers.source.encode(SENTENCES[:2])
    job = SearchJob([ids], GREEDY, NO_CONSTRAINTS, [0, 1])
    threads = torch.get_num_threads()
    try:
        assert load_search([run.loaded_from])(job) == search_batch([run.model], job)
    finally:
        torch.set_num_threads(threads)


def test_a_worker_refuses_changed_weights(tiny_run):
    run = open_run(tiny_run, device=CPU)
    older = run.loaded_from._replace(stamp=(0, 0))
    with pytest.raises(RunError, match="its weights have changed since they were loaded"):
        load_search([older])


def test_workers_need_several_cores_and_runs_from_folders(tiny_run):
    run = open_run(tiny_run, device=CPU)
    assert job_runner([run], 3) is not None
    assert job_runner([run], 1) is None
    assert job_runner([run, run._replace(loaded_from=None)], 3) is None
    moved = run._replace(model=run.model.to("meta"))
    assert job_runner([moved], 3) is None


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_a_gpu_captures_repeated_searches(tiny_run):
    run = open_run(tiny_run, device=torch.device("cuda"))
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
        loaded_from=None,
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
    assert plain.loaded_from.precision == "float32"
    [run] = NativeEngine.open_runs((tiny_run,), device="cpu", weights="model", precision="int8")
    assert any(isinstance(module, Int8Linear) for module in run.model.modules())
    assert run.loaded_from == plain.loaded_from._replace(precision="int8")
    file = os.stat(tiny_run / "model.safetensors")
    assert run.loaded_from.stamp == (file.st_mtime_ns, file.st_size)
    answers = load(tiny_run, device="cpu", engine="native", precision="int8").translate(SENTENCES)
    assert len(answers) == len(SENTENCES)
    with pytest.raises(
        SettingsError, match="int16 needs CTranslate2; the native engine has float32"
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


LINK = ForcedPositions((0,), (0,))


@pytest.fixture(scope="module")
def run(tiny_run):
    return open_run(tiny_run, device=torch.device("cpu"))


@pytest.fixture(scope="module")
def other(other_run):
    return open_run(other_run, device=torch.device("cpu"))


@pytest.fixture(scope="module")
def line(run):
    return tokenize_lines(["Elle danse."], run.tokenizers.source, 50)[0]


def test_existing_heads_can_be_changed(run, other, line):
    check_interventions([run], [Silenced("encoder", 2, 3), Flattened("cross", 1), LINK], [line])
    check_interventions([run, other], [Silenced("cross", 0), LINK], [line])
    check_interventions([run], [Silenced("cross", 0)], [line, line])
    check_interventions([run], [], [])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (Silenced("encoder", 3), "layer: encoder attention of .*tiny has 3, .* 0; got 3"),
        (Flattened("cross", 2, 0), "layer: cross attention of .*tiny has 2, .* 0; got 2"),
        (Silenced("cross", 1, 4), "head: cross attention of .*tiny has 4, .* 0; got 4"),
        (
            ForcedPositions((0,), (0,), layer=2),
            "layer: cross attention of .*tiny has 2, .* 0; got 2",
        ),
        (ForcedPositions((0,), (0,), head=4), "head: cross attention of .*tiny has 4, .* 0; got 4"),
        (ForcedPositions((0,), (99,)), r"the sentence has \d+ positions, counted from 0; got 99"),
    ],
)
def test_missing_layers_and_heads_are_errors(run, line, change, message):
    with pytest.raises(SettingsError, match=message):
        check_interventions([run], [change], [line])


def test_the_end_of_the_sentence_is_a_position_too(run, line):
    positions = len(line.parts[0]) + 1
    check_interventions([run], [ForcedPositions((0,), (positions - 1,))], [line])
    with pytest.raises(SettingsError, match=f"has {positions} positions"):
        check_interventions([run], [ForcedPositions((0,), (positions,))], [line])


def test_each_model_of_an_ensemble_must_have_the_head(run, other, line):
    message = "other: a model of the family rnnsearch has no encoder attention .* it has: cross"
    with pytest.raises(SettingsError, match=message):
        check_interventions([run, other], [Silenced("encoder", 0)], [line])


def line_of(*parts):
    return TokenizedLine(
        list(parts), [], ["a"], [len(parts)], Segments([Segment("a", translatable=True)])
    )


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([line_of([5])] * 4, "between words of one sentence, and there are 4; give them"),
        ([], "one sentence, and there are 0"),
        ([line_of()], "force: the line is not translated, so there is no single map"),
        ([line_of([5], [6])], "the line is translated in 2 parts"),
    ],
)
def test_a_link_is_forced_in_one_sentence(run, lines, message):
    with pytest.raises(SettingsError, match=message):
        check_interventions([run], [LINK], lines)


def test_forced_positions_need_one_tokenization(run, line):
    letters = train_tokenizer(["Elle danse."], TokenizerSettings(kind="characters"))
    other = copy(run.task)
    other.tokenizers = Tokenizers(letters, run.tokenizers.target)
    unlike = run._replace(task=other)
    with pytest.raises(SettingsError, match="tokenize the sentence differently"):
        check_interventions([run, unlike], [LINK], [line])
    check_interventions([run, unlike], [Silenced("cross", 0)], [line])
