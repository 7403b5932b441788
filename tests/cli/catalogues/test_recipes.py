import json

import pytest
import yaml
from typer.testing import CliRunner

from regard.cli.catalogues.recipes import app
from regard.errors import SettingsError
from regard.recipes.recipe_files import explain_settings, load_recipe, shelf_recipes


def run(*args):
    return CliRunner().invoke(app, args, catch_exceptions=False, env={"COLUMNS": "400"})


def test_the_list_names_every_recipe():
    lines = run().stdout.splitlines()[1:]
    assert [line.split()[0] for line in lines] == list(shelf_recipes())
    for line in lines:
        recipe = load_recipe(line.split()[0])
        assert line.split()[1] == recipe.model.family
        assert line.rstrip().endswith(recipe.about)


@pytest.mark.parametrize("name", sorted(shelf_recipes()))
def test_a_recipe_as_it_was_written(name):
    assert run("show", name).stdout == shelf_recipes()[name].read_text(encoding="utf-8")


def test_a_recipe_with_all_its_defaults(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text(run("show", "travel", "--resolved").stdout)
    assert load_recipe(file) == load_recipe("travel")
    assert "label_smoothing" in file.read_text()


def test_settings_may_be_changed_on_the_way(tmp_path):
    plain = yaml.safe_load(run("show", "travel", "--set", "training.steps=5").stdout)
    assert plain["training"]["steps"] == 5


def test_a_file_of_ones_own(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("# mine\nname: mine\ncorpus: {name: copy}\n")
    assert run("show", str(file)).stdout == file.read_text()


def test_the_schema_knows_every_setting():
    schema = json.loads(run("schema").stdout)
    assert set(schema["properties"]) == {
        *("task", "name", "about", "corpus", "text", "model", "training", "refinement", "decoding"),
        *("input", "evaluation", "start"),
    }
    assert schema["$defs"]["TranslationTrainingSettings"]["properties"]["steps"]["description"]


def test_the_page_of_settings():
    assert run("settings").stdout == explain_settings() + "\n"


def test_mistakes(tmp_path):
    with pytest.raises(SettingsError, match="did you mean 'travel'"):
        run("show", "travle")
    with pytest.raises(SettingsError, match="did you mean 'steps'"):
        run("show", "travel", "--set", "training.stps=3")
    (tmp_path / "bad.yaml").write_bytes(b"name: caf\xe9")
    with pytest.raises(SettingsError, match="not UTF-8"):
        run("show", str(tmp_path / "bad.yaml"))
