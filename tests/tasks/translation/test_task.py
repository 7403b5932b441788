import pytest
import torch

from regard.errors import SettingsError
from regard.recipes.open_run import open_run
from regard.tasks.translation.task import Translation
from regard.tasks.translation.training_inputs import TrainingInputs
from tiny import tiny_recipe

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    recipe = tiny_recipe("training.max_tokens=20", "training.save_every=auto")
    task = Translation(recipe, tmp_path_factory.mktemp("task"))
    task.prepare(print, resumed=False)
    return task


def test_preparing_leaves_nothing_to_choose(task):
    assert task.recipe.auto == ()
    assert task.recipe.evaluation.tokenize == "13a"
    assert task.inputs.recipe == task.recipe
    assert "training.save_every" in [choice.setting for choice in task.choices()]


def test_it_says_what_was_read(task):
    size = task.tokenizers.source.size
    assert task.summary() == {
        "pairs": "300 train, 30 valid, 20 test",
        "left out": f"{task.inputs.num_too_long} pairs with more than 20 tokens",
        "vocabulary": f"{size:,} shared",
    }
    assert task.origin() == task.inputs.data.origin
    assert task.cleaning_report().total >= 300


def test_references_beyond_the_limits_are_warned_of(tmp_path):
    task = Translation(tiny_recipe("decoding.rules.max_length=3"), tmp_path)
    task.prepare(print, resumed=False)
    [warning] = task.warnings()
    assert "references (100.0%) are longer than answers may be" in warning


def test_rows_of_its_models_are_named_by_its_vocabularies(task):
    source, target = task.tokenizers
    names = task.row_names()
    assert sorted(names) == ["source tokens", "target tokens"]
    assert [len(rows) for rows in names.values()] == [source.size, target.size]


def test_positions_must_reach(task):
    learned = tiny_recipe("model.positions=learned", "model.max_positions=9")
    model = Translation(learned, task.folder)
    model.load()
    with pytest.raises(SettingsError, match=r"raise model\.max_positions"):
        task.check_model(model.new_model(), print)


def test_only_a_recipe_with_refinement_has_a_second_stage(task):
    torch.manual_seed(1)
    model = task.new_model()
    assert task.second_stage(model) is None
    refined = Translation(tiny_recipe("refinement={steps: 3}"), task.folder)
    refined.prepare(print, resumed=False)
    stage = refined.second_stage(model)
    assert stage.settings == refined.recipe.second_stage_settings()
    assert stage.settings.steps == 3
    assert (stage.training.validate_first, stage.training.selection.name) == (True, "gleu")
    assert not task.training(model).validate_first


def test_a_loaded_run_validates_as_it_did(tiny_run):
    run = open_run(tiny_run, tasks=["translation"], device=CPU)
    weights = open_run(tiny_run, device=CPU).model.state_dict()
    assert all(torch.equal(run.model.state_dict()[name], weights[name]) for name in weights)
    training = run.task.training(run.model)
    assert isinstance(run.task.inputs, TrainingInputs)
    torch.manual_seed(1)
    learned, new = (
        training.validate(one.eval())["loss"] for one in (run.model, run.task.new_model())
    )
    assert learned < new
