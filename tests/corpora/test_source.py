import pytest
from pydantic import ValidationError

from regard.corpora.labelled_texts import LabelledTextSettings
from regard.corpora.pairs.build import CorpusSettings
from regard.corpora.running_text import RunningTextSettings
from regard.errors import SettingsError
from regard.tasks.captions.data import CaptionCorpusSettings
from regard.tasks.captions.task import CaptionRecipe
from regard.tasks.forecast.series import SeriesSettings
from regard.tasks.forecast.task import ForecastRecipe
from regard.tasks.language.task import LanguageModelRecipe
from regard.tasks.picture_classes.data import LabelledPictureSettings

TWO = {"train": [{"data": "a.txt"}, {"data": "b.txt"}], "valid": {"data": "v.txt"}}
KINDS = {
    CorpusSettings: ({"train": {"data": "a.tsv"}}, {"name": "dates", "tatoeba": {}}),
    RunningTextSettings: ({"train": "a"}, {"name": "ptb", "valid": "a"}),
    LabelledTextSettings: ({"train": "a.tsv"}, {"name": "trec6", "header": True}),
    LabelledPictureSettings: ({"train": "a"}, {"name": "mnist", "skip_bad": True}),
    CaptionCorpusSettings: ({"train": {"captions": "a"}}, {"name": "flickr8k", "generated": {}}),
    SeriesSettings: ({"file": "a.csv", "terms": 9}, {"name": "fibonacci", "columns": [1]}),
}
"""Each kind of corpus: files, and a setting without effect."""
SHARED = (RunningTextSettings, LabelledTextSettings, LabelledPictureSettings)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_from_a_known_corpus_or_from_files(kind):
    files, unused = KINDS[kind]
    known = {"name": next(iter(kind.known()))}
    for wrong in ({}, known | files):
        with pytest.raises(ValidationError, match="give either"):
            kind(**wrong)
    [*_, option] = unused
    with pytest.raises(ValidationError, match=f"{option} would have no effect on {unused['name']}"):
        kind(**unused)
    assert kind(**known).corpus_label == known["name"]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "imported" in kind.model_fields])
def test_an_imported_model_has_no_corpus(kind):
    assert kind(imported=True).corpus_label == "no corpus"
    with pytest.raises(ValidationError, match="imported: true"):
        kind(imported=True, **KINDS[kind][0])


@pytest.mark.parametrize("kind", SHARED)
def test_shares_that_have_no_effect_or_leave_nothing_are_refused(kind):
    train = KINDS[kind][0]["train"]
    with pytest.raises(ValidationError, match="test_share would have no effect beside test"):
        kind(train=train, test=train, test_share=0.1)
    with pytest.raises(ValidationError, match="valid_share and test_share leave nothing to train"):
        kind(train=train, valid_share=0.6, test_share=0.4)


@pytest.mark.parametrize("kind", SHARED[:2])
def test_what_is_read_twice_is_not_the_standard_input(kind):
    with pytest.raises(ValidationError, match="can be read only once"):
        kind(train="-")


@pytest.mark.parametrize(
    ("kind", "files", "message"),
    [
        (RunningTextSettings, {**TWO, "languages": ["en", "de"]}, "--languages is for pairs"),
        (RunningTextSettings, {"train": {"source": "a", "target": "b"}}, "give --data FILE"),
        (RunningTextSettings, {"train": [{"data": "a", "weight": 2.0}]}, "--data a=2: weights"),
        (RunningTextSettings, {"train": {"data": "a", "skip_bad": True}}, "--skip-bad: the task"),
        (LabelledPictureSettings, TWO, "--data is given 2 times: the task reads one file"),
        (SeriesSettings, TWO, "--valid and --test: the task splits these off --data"),
    ],
)
def test_options_that_a_task_has_no_use_for_are_refused(kind, files, message):
    with pytest.raises(SettingsError, match=message):
        kind.of_files({}, files)


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
