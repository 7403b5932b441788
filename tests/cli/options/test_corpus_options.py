import pytest

from regard.cli.options.corpus_options import (
    corpus_from_options,
    recipe_of_run,
    recipe_with_corpus,
    require_pairs,
)
from regard.errors import SettingsError
from regard.recipes.recipe_files import load_recipe


def test_two_files_and_held_out_ones():
    corpus = corpus_from_options(None, ["a.en"], ["a.de"], "v.tsv", "t.en,t.de", "en-de")
    assert corpus == {
        "train": {"source": "a.en", "target": "a.de"},
        "valid": {"data": "v.tsv"},
        "test": {"source": "t.en", "target": "t.de"},
        "languages": ["en", "de"],
    }


def test_a_comma_in_a_name_is_not_dropped(tmp_path):
    corpus = corpus_from_options(["a.tsv"], test="t.en,t.de,old")
    assert corpus is not None
    assert corpus["test"] == {"source": "t.en", "target": "t.de,old"}
    (tmp_path / "a,b.tsv").touch()
    corpus = corpus_from_options(["a.tsv"], test=str(tmp_path / "a,b.tsv"))
    assert corpus is not None
    assert corpus["test"] == {"data": str(tmp_path / "a,b.tsv")}


def test_what_goes_with_pairs_is_refused_for_other_tasks():
    require_pairs("--mix", "travel")
    with pytest.raises(
        SettingsError, match="text-classification; --mix is only for pairs: drop it"
    ):
        require_pairs("--mix", "labels")


def test_one_file():
    assert corpus_from_options(["a.tmx"]) == {"train": {"data": "a.tmx"}}


def test_several_corpora_with_weights(tmp_path):
    odd = tmp_path / "odd=2"
    odd.write_text("")
    files = ["a.tsv", "b.tmx=0.5", str(odd)], ["c.en=3"], ["c.de"]
    assert corpus_from_options(*files, "v.tsv", skip_bad=True) == {
        "train": [
            {"data": "a.tsv", "skip_bad": True},
            {"data": "b.tmx", "weight": 0.5, "skip_bad": True},
            {"data": str(odd), "skip_bad": True},  # a file that is called so
            {"source": "c.en", "target": "c.de", "weight": 3.0, "skip_bad": True},
        ],
        "valid": {"data": "v.tsv", "skip_bad": True},
    }


@pytest.mark.parametrize("weight", ["0", "-1", "nan", "inf", "101"])
def test_a_weight_is_a_number_above_zero(weight):
    with pytest.raises(SettingsError, match=f"--data a.tsv={weight}: expected a weight above 0"):
        corpus_from_options([f"a.tsv={weight}"])


def test_a_weight_that_is_no_number(tmp_path):
    file = tmp_path / "a.tsv"
    file.write_text("")
    with pytest.raises(SettingsError, match="got 'two'"):
        corpus_from_options([f"{file}=two"])


def test_sources_and_targets_go_together():
    with pytest.raises(SettingsError, match="--source is given twice and --target once"):
        corpus_from_options(None, ["a", "b"], ["c"])


def test_no_files():
    assert corpus_from_options() is None


@pytest.mark.parametrize("given", [("v.tsv", None, None), (None, "t.tsv", None), (None, None, "x")])
def test_held_out_files_need_others(given):
    with pytest.raises(SettingsError, match="need --data or --source"):
        corpus_from_options(None, None, None, *given)


def test_languages_are_two():
    with pytest.raises(SettingsError, match="--languages en: expected two codes, such as en-de"):
        corpus_from_options(["a.tsv"], languages="en")


def test_languages_are_codes():
    with pytest.raises(
        SettingsError, match=r"'english' and 'jp' are not codes .* did you mean en-ja\?"
    ):
        corpus_from_options(["a.tsv"], languages="english-jp")


def test_a_recipe_on_files_keeps_how_it_cleans(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text(
        "name: mine\n"
        "corpus: {train: {data: old.tsv}, cleaning: {max_words: 7}, split: {valid: 3}}\n"
    )
    found = recipe_with_corpus(str(file), {"train": {"data": "new.tsv"}}, ["training.steps=5"])
    assert found.corpus.train is not None
    assert found.corpus.train.data == "new.tsv"
    assert found.corpus.cleaning.max_words == 7
    assert found.corpus.split.valid == 3
    assert found.training.steps == 5


def test_a_recipe_on_a_named_corpus_cleans_as_that_does(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("name: mine\ncorpus: {train: {data: old.tsv}, split: {valid: 3}}\n")
    found = recipe_with_corpus(str(file), {"name": "copy"}, [])
    assert found.corpus.name == "copy"
    assert not found.corpus.cleaning.drop_identical


def test_the_recipe_of_a_run_on_files_keeps_its_model_and_how_texts_are_read():
    changes = ["corpus.documents=line", "start.run=runs/old", "model.layers=1"]
    given = load_recipe("shakespeare", changes)
    made = recipe_of_run(given, {"train": {"data": "novel.txt"}}, ["training.steps=3"])
    assert (made.task, made.name, made.start) == (given.task, "own", None)
    assert made.corpus.train == ("novel.txt",)
    assert made.corpus.documents == "line"
    assert (made.model, made.text, made.training.steps) == (given.model, given.text, 3)


def test_a_recipe_as_it_is():
    assert recipe_with_corpus("travel", None, []).corpus.name == "travel"


def test_a_recipe_that_is_no_yaml(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("name: [\n")
    with pytest.raises(SettingsError, match=r"mine.yaml: cannot be read as YAML"):
        recipe_with_corpus(str(file), {"name": "copy"}, [])


@pytest.mark.parametrize(
    ("recipe", "options"),
    [("labels", "--data FILE$"), ("own", "--data FILE, or --source FILE and --target FILE$")],
)
def test_a_recipe_for_data_of_ones_own_says_how_to_give_them(
    recipe, options, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SettingsError, match=f"{recipe}: .* are missing: give {options}"):
        recipe_with_corpus(recipe, None, [])
    (tmp_path / "labels.tsv").write_text("a\tb\n")
    assert recipe_with_corpus("labels", None, []).corpus.train
