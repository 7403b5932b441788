import threading

import pytest

import regard
from forecasts import RAW
from regard.json_files import dump_json
from regard.pipelines.exchange.compact_run import export_compact

SETTINGS = {"training.steps": 10, "training.validation.every": 5}


@pytest.fixture
def recipe(tmp_path):
    file = tmp_path / "tiny.yaml"
    file.write_text(dump_json(RAW), encoding="utf-8")
    return file


def test_a_recipe_becomes_a_pipeline_as_by_the_command(recipe, tmp_path):
    lines = []
    out = tmp_path / "run"
    forecaster = regard.train(recipe, out=out, settings=SETTINGS, device="cpu", tell=lines.append)
    answer = forecaster([1, 1, 2, 3, 5, 8])
    assert lines[0].endswith("parameters")
    assert [line.split(":")[0] for line in lines[1:3]] == ["step 5", "step 10"]
    assert lines[-1].startswith(f"{out}: test: mse ")
    assert (out / "card.md").is_file()
    assert (out / "scores.json").is_file()
    assert regard.load(out, device="cpu")([1, 1, 2, 3, 5, 8]).value == answer.value

    with pytest.raises(regard.RegardError, match="already holds a run"):
        regard.train(recipe, out=out, tell=lines.append)
    again = []
    regard.train(recipe, out=out, settings=SETTINGS, resume=True, tell=again.append)
    assert again == []  # it was finished
    regard.train(recipe, out=out, settings={"training.steps": 12}, resume=True, tell=again.append)
    assert [line for line in again if line.startswith("step 12")]

    export_compact(out, tmp_path / "copy")  # a run of any task can be copied
    regard.load(tmp_path / "copy")([1, 1, 2, 3, 5, 8])


def test_it_trains_in_any_thread(recipe, tmp_path):
    """As in a server: only the main thread gets signals."""
    found = []

    def work():
        out = tmp_path / "run"
        settings = {**SETTINGS, "training.steps": 5}
        found.append(regard.train(recipe, out=out, settings=settings, tell=lambda line: None))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert len(found) == 1
