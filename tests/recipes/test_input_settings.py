from regard.recipes.input_settings import infer_input_settings, run_input_settings
from regard.text.segmentation import InputSettings
from tiny import tiny_recipe


def write(folder):
    (folder / "data").mkdir()
    (folder / "data" / "train.source.txt").write_text("4 mar. 2021\n" * 9)
    (folder / "data" / "train.target.txt").write_text("2021-03-04\n" * 9)
    return folder


def test_of_a_run_from_before_the_training_pairs_are_read(tmp_path):
    assert run_input_settings(tiny_recipe(), write(tmp_path)) == infer_input_settings(tmp_path)
    assert not infer_input_settings(tmp_path).split_sentences


def test_what_a_recipe_says_holds(tmp_path):
    said = run_input_settings(tiny_recipe("input.split_sentences=true"), write(tmp_path))
    assert said.split_sentences
    assert "layout" not in said.pass_through


def test_without_them_it_is_as_usual(tmp_path):
    assert infer_input_settings(tmp_path) == InputSettings()
