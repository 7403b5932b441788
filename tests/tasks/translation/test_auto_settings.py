import pytest

from regard.errors import SettingsError
from regard.recipes.recipe_files import (
    dump_recipe,
    load_recipe,
    make_recipe,
    recipe_schema,
    shelf_recipes,
)
from regard.settings import SettingChoice
from regard.tasks.translation.auto_settings import (
    AUTO_INPUT,
    AUTO_LIMITS,
    AUTO_SETTINGS,
    format_choices,
    infer_input_settings,
    run_input_settings,
)
from regard.tasks.translation.recipe import TranslationRecipe
from regard.text.segmentation import InputSettings
from tiny import tiny_recipe

OWN = {"name": "mine", "corpus": {"train": {"data": "a.tsv"}}}


def made(*overrides, **groups):
    return make_recipe({**OWN, **groups}, overrides, where="mine.yaml")


@pytest.mark.parametrize("place", AUTO_SETTINGS)
def test_what_says_auto_is_remembered_and_written_as_it_was(place, tmp_path):
    recipe = made(f"{place}=auto", model={"family": "transformer"})
    assert place in recipe.auto
    file = tmp_path / "mine.yaml"
    file.write_text(dump_recipe(recipe))
    assert (
        load_recipe(file)
        == recipe
        == TranslationRecipe.model_validate_json(recipe.model_dump_json())
    )


def test_what_is_given_is_kept(tmp_path):
    recipe = made("decoding.rules.max_length=90", "corpus.cleaning.leaks=either")
    open_places = set(recipe.auto)
    assert open_places == {"corpus.cleaning.max_ratio", *AUTO_LIMITS, *AUTO_INPUT} - {
        AUTO_LIMITS[0]
    }
    chosen = recipe.with_choices([SettingChoice(place, 30, "") for place in AUTO_LIMITS])
    assert chosen.decoding.rules.max_length == 90
    assert chosen.decoding.rules.max_length_offset == 30
    assert chosen.auto == ("corpus.cleaning.max_ratio", *AUTO_INPUT)


def test_a_preset_that_is_auto_leaves_every_size_open_that_is_not_given():
    recipe = made(model={"family": "transformer", "preset": "auto", "width": 64, "heads": 4})
    sizes = ["model.encoder_layers", "model.decoder_layers", "model.feed_forward"]
    assert [place for place in recipe.auto if place.startswith("model.")] == sizes


def test_of_shelf_recipes_with_a_named_corpus_only_limits_are_open():
    recipes = map(load_recipe, shelf_recipes())
    named = [one for one in recipes if one.task == "translation" and one.corpus.name]
    named = [one for one in named if one.start is None]  # others have the model of a run
    assert named
    assert all(set(recipe.auto) <= {*AUTO_LIMITS, *AUTO_INPUT} for recipe in named)


def test_where_no_choice_is_made_auto_is_an_error():
    with pytest.raises(SettingsError, match=r"training\.seed: must be a whole number, got 'auto'"):
        made("training.seed=auto")


def test_a_setting_that_knows_auto_itself_is_left_alone():
    recipe = made("training.precision=auto", "training.capture=auto")
    assert (recipe.training.precision, recipe.training.capture) == ("auto", "auto")
    assert not any(place.startswith("training") for place in recipe.auto)


def test_a_recipe_takes_what_another_has_settled():
    recipe, other = made("training.steps=auto"), made("training.steps=7")
    assert recipe.with_choices_of(other).training.steps == 7
    assert recipe.with_choices_of(other).training.steps == 7
    assert recipe.with_choices_of(recipe) == recipe


def test_choices_are_told_by_their_reasons():
    choices = [
        SettingChoice("a.steps", 2000, "small"),
        SettingChoice("b.rate", 0.5, ""),
        SettingChoice("c.d.x", "y", "small"),
        SettingChoice("a.size", 1, "small"),
    ]
    assert format_choices(choices) == ["a.steps 2,000, size 1, c.d.x y: small"]


@pytest.mark.parametrize("place", ["model.width", "model.preset"])
def test_sizes_of_other_families_are_not_chosen(place):
    with pytest.raises(SettingsError, match=place):
        made(f"{place}=auto", model={"family": "luong"})


def test_what_was_chosen_and_does_not_go_with_the_rest_is_one_line():
    recipe = made("model.width=130", model={"family": "transformer", "preset": "auto"})
    with pytest.raises(
        SettingsError, match=r"multiple of heads.*given settings contradict model\.heads 4"
    ):
        recipe.with_choices([SettingChoice("model.heads", 4, "")])


def test_the_schema_allows_auto_where_it_is_chosen():
    schema = recipe_schema()
    steps = schema["$defs"]["TranslationTrainingSettings"]["properties"]["steps"]
    assert {"const": "auto"} in steps["anyOf"]
    assert steps["description"]
    assert "anyOf" not in schema["$defs"]["TranslationTrainingSettings"]["properties"]["seed"]


def write_pairs(folder):
    (folder / "data").mkdir()
    (folder / "data" / "train.source.txt").write_text("4 mar. 2021\n" * 9)
    (folder / "data" / "train.target.txt").write_text("2021-03-04\n" * 9)
    return folder


def test_input_settings_of_an_old_run_are_inferred_from_its_training_pairs(tmp_path):
    assert run_input_settings(tiny_recipe(), write_pairs(tmp_path)) == infer_input_settings(
        tmp_path
    )
    assert not infer_input_settings(tmp_path).split_sentences


def test_given_input_settings_are_not_inferred(tmp_path):
    said = run_input_settings(tiny_recipe("input.split_sentences=true"), write_pairs(tmp_path))
    assert said.split_sentences
    assert "layout" not in said.pass_through


def test_without_training_pairs_input_settings_are_the_defaults(tmp_path):
    assert infer_input_settings(tmp_path) == InputSettings()
