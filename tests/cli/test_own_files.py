import pytest

from regard.cli.own_files import own_corpus, recipe_with
from regard.errors import SettingsError

NONE = {"data": None, "source": None, "target": None}


def test_two_files_and_held_out_ones():
    corpus = own_corpus(
        {"data": None, "source": "a.en", "target": "a.de"}, "v.tsv", "t.en,t.de", "en-de"
    )
    assert corpus == {
        "train": {"source": "a.en", "target": "a.de"},
        "valid": {"data": "v.tsv"},
        "test": {"source": "t.en", "target": "t.de"},
        "languages": ["en", "de"],
    }


def test_one_file():
    assert own_corpus({**NONE, "data": "a.tmx"}, None, None, None) == {"train": {"data": "a.tmx"}}


def test_no_files():
    assert own_corpus(NONE, None, None, None) is None


@pytest.mark.parametrize("given", [("v.tsv", None, None), (None, "t.tsv", None), (None, None, "x")])
def test_held_out_files_need_others(given):
    with pytest.raises(SettingsError, match="go with --data or --source"):
        own_corpus(NONE, *given)


def test_languages_are_two():
    with pytest.raises(SettingsError, match="--languages en: expected two codes, such as en-de"):
        own_corpus({**NONE, "data": "a.tsv"}, None, None, "en")


def test_a_recipe_on_files_keeps_how_it_cleans(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text(
        "name: mine\n"
        "corpus: {train: {data: old.tsv}, cleaning: {max_words: 7}, split: {valid: 3}}\n"
    )
    found = recipe_with(str(file), {"train": {"data": "new.tsv"}}, ["training.steps=5"])
    assert found.corpus.train is not None
    assert found.corpus.train.data == "new.tsv"
    assert found.corpus.cleaning.max_words == 7
    assert found.corpus.split.valid == 3
    assert found.training.steps == 5


def test_a_recipe_on_a_named_corpus_cleans_as_that_does(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("name: mine\ncorpus: {train: {data: old.tsv}, split: {valid: 3}}\n")
    found = recipe_with(str(file), {"name": "copy"}, [])
    assert found.corpus.name == "copy"
    assert not found.corpus.cleaning.drop_identical


def test_a_recipe_as_it_is():
    assert recipe_with("travel", None, []).corpus.name == "travel"


def test_a_recipe_that_is_no_yaml(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("name: [\n")
    with pytest.raises(SettingsError, match=r"mine.yaml: cannot be read as YAML"):
        recipe_with(str(file), {"name": "copy"}, [])
