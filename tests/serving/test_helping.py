import os

import pytest
import torch

from regard.batching import crew
from regard.decoding.many import Job, search_batch
from regard.decoding.rules import FREE
from regard.decoding.settings import BeamSettings, DecodingSettings
from regard.errors import RunError, SettingsError
from regard.layers.quantised import Int8Linear
from regard.recipes.run_folder import load_run
from regard.serving import native
from regard.serving.helping import make_crew, open_search
from regard.serving.native import open_runs
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
