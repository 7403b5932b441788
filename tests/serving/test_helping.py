import os
from types import SimpleNamespace

import pytest
import torch

from regard.batching import crew
from regard.decoding.chains import Chains
from regard.decoding.many import Job, Member, search_batch, search_many
from regard.decoding.rules import FREE
from regard.decoding.settings import BeamSettings, DecodingSettings
from regard.errors import RunError, SettingsError
from regard.kernels.graphs import Again
from regard.layers.quantised import Int8Linear
from regard.recipes.run_folder import load_run
from regard.serving import helping, native
from regard.serving.helping import make_crew, open_search
from regard.serving.native import Native, open_runs
from regard.serving.translator import load

CPU = torch.device("cpu")
SENTENCES = ["Jane visite l'Afrique en septembre.", "Paul aime la mer.", "Elle danse."] * 8
GREEDY = DecodingSettings(beam=BeamSettings(size=1))


def test_helpers_answer_as_this_process_does(tiny_run, monkeypatch):
    monkeypatch.setattr(native, "count_cores", lambda: 2)
    monkeypatch.setattr(native, "CPU_BUDGET", 20)
    translator = load(tiny_run, device="cpu", engine="native")
    alone = [answer.candidates for answer in translator.translate(SENTENCES, GREEDY)]
    monkeypatch.setattr(crew, "PAYS", -1.0)
    together = [answer.candidates for answer in translator.translate(SENTENCES * 4, GREEDY)]
    assert translator._native._crew.started
    translator._native._crew.close()
    assert together == alone * 4


def test_what_a_helper_does_with_a_batch(tiny_run):
    run = load_run(tiny_run, device=CPU)
    ids = run.tokenizers.source.encode(SENTENCES[:2])
    job = Job([ids], GREEDY, FREE, [0, 1])
    threads = torch.get_num_threads()
    try:
        assert open_search([run.opened])(job) == search_batch([run.model], job)
    finally:
        torch.set_num_threads(threads)


def test_no_helper_has_other_weights(tiny_run):
    run = load_run(tiny_run, device=CPU)
    older = run.opened._replace(stamp=(0, 0))
    with pytest.raises(RunError, match="its weights have changed since they were loaded"):
        open_search([older])


def test_there_are_helpers_only_where_they_can_help(tiny_run):
    run = load_run(tiny_run, device=CPU)
    assert make_crew([run], 3) is not None
    assert make_crew([run], 1) is None
    assert make_crew([run, run._replace(opened=None)], 3) is None
    moved = run._replace(model=run.model.to("meta"))
    assert make_crew([moved], 3) is None


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_a_gpu_records_what_it_searched_for(tiny_run):
    run = load_run(tiny_run, device=torch.device("cuda"))
    chains = Native([run])._crew
    assert isinstance(chains, Chains)
    sources = run.tokenizers.source.encode(["Jane visits Africa.", "A dog."])
    settings = run.recipe.decoding
    plain = search_many([Member(run.model, sources)], settings, budget=10**6)
    for _ in range(3):
        answers = search_many([Member(run.model, sources)], settings, budget=10**6, crew=chains)
        assert [best[0].tokens for best in answers] == [best[0].tokens for best in plain]
    assert chains.failed is None
    assert chains.held > 0


def test_records_may_hold_a_part_of_a_gpu(monkeypatch):
    weights = [SimpleNamespace(device=torch.device("cuda"))]
    run = SimpleNamespace(
        opened=None,
        model=SimpleNamespace(parameters=lambda: weights),
        tokenizers=SimpleNamespace(target=SimpleNamespace(size=9)),
    )
    monkeypatch.setattr(helping, "Graphs", lambda where: Again())
    monkeypatch.setattr(helping, "available_memory", lambda where: 800)
    found = make_crew([run], 3)
    assert isinstance(found, Chains)
    assert found.room == 100


def test_the_native_engine_takes_weights_in_fewer_bits(tiny_run):
    [plain] = open_runs((tiny_run,), device="cpu", weights="model")
    assert plain.opened.precision == "float32"
    [run] = open_runs((tiny_run,), device="cpu", weights="model", precision="int8")
    assert any(isinstance(module, Int8Linear) for module in run.model.modules())
    assert run.opened == plain.opened._replace(precision="int8")
    file = os.stat(tiny_run / "model.safetensors")
    assert run.opened.stamp == (file.st_mtime_ns, file.st_size)
    answers = load(tiny_run, device="cpu", engine="native", precision="int8").translate(SENTENCES)
    assert len(answers) == len(SENTENCES)
    with pytest.raises(
        SettingsError, match="int16 is CTranslate2's; the native engine has float32"
    ):
        open_runs((tiny_run,), device="cpu", weights="model", precision="int16")
