"""How fast a run is, measured in a process of its own."""

from regard.serving.measuring import BUDGETS, Trial, Way, measure_way

LINES = ["Jane visite l'Afrique en septembre.", "", "Elle danse."]


def test_a_way_is_measured(tiny_run, translator):
    found = measure_way(tiny_run, Way("native", "float32"), LINES, 1)
    assert isinstance(found, Trial), found
    assert found.choice.engine == "native"
    assert found.choice.budget in BUDGETS
    assert min(found.sentences, found.tokens, found.milliseconds, found.megabytes) > 0
    assert len(found.texts) == 3
    assert found.texts[1] == ""


def test_why_a_way_is_not_there_is_said(tmp_path):
    found = measure_way(tmp_path / "nothing", Way("native", "float32"), LINES, None)
    assert found == f"{tmp_path / 'nothing'}: no such folder"
