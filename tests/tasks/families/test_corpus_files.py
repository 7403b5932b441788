import pytest

from regard.errors import SettingsError
from regard.tasks.captions.task import CaptionRecipe
from regard.tasks.families.corpus_files import file_names
from regard.tasks.forecast.task import ForecastRecipe
from regard.tasks.language.task import LanguageModelRecipe

TWO = {"train": [{"data": "a.txt"}, {"data": "b.txt"}], "valid": {"data": "v.txt"}}


def test_the_names_of_files_by_split():
    assert file_names(TWO) == {"train": ["a.txt", "b.txt"], "valid": ["v.txt"]}


@pytest.mark.parametrize(
    ("files", "options", "message"),
    [
        ({**TWO, "languages": ["en", "de"]}, {}, "--languages is for pairs of texts"),
        ({"train": {"source": "a", "target": "b"}}, {}, "give --data FILE"),
        (
            {"train": [{"data": "a", "weight": 2.0}]},
            {},
            "--data a=2: weights are for pairs of texts",
        ),
        ({"train": {"data": "a", "skip_bad": True}}, {}, "--skip-bad: the task reads whole files"),
        (TWO, {"many": False}, "--data is given 2 times: the task reads one file"),
        (TWO, {"held_out": False}, "--valid and --test: the task splits these off --data"),
    ],
)
def test_options_that_a_task_has_no_use_for_are_refused(files, options, message):
    with pytest.raises(SettingsError, match=message):
        file_names(files, **options)


def test_a_text_is_cut_as_the_recipe_says_unless_files_are_given():
    own = {"train": "old.txt", "documents": "line", "valid_share": 0.2, "test_share": 0.1}
    assert LanguageModelRecipe.corpus_of_files(own, TWO) == {
        "documents": "line",
        "test_share": 0.1,
        "train": ["a.txt", "b.txt"],
        "valid": ["v.txt"],
    }


def test_a_table_is_cut_into_windows_as_the_recipe_says():
    files = {"train": {"data": "days.csv"}}
    found = ForecastRecipe.corpus_of_files({"name": "fibonacci", "terms": 9, "window": 5}, files)
    assert found == {"window": 5, "file": "days.csv"}
    own = {"file": "old.csv", "columns": ["rain"]}
    assert ForecastRecipe.corpus_of_files(own, files) == {"file": "days.csv", "columns": ["rain"]}


def test_files_of_captions_skip_what_is_bad():
    files = {"train": {"data": "c.tsv", "skip_bad": True}, "test": {"data": "t.tsv"}}
    found = CaptionRecipe.corpus_of_files({"name": "flickr8k", "split": {"valid": 3}}, files)
    assert found == {
        "split": {"valid": 3},
        "train": {"captions": "c.tsv", "skip_bad": True},
        "test": {"captions": "t.tsv", "skip_bad": True},
    }
