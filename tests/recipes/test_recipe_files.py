import re
from pathlib import Path
from typing import get_args

import pytest
import yaml
from pydantic import BaseModel

from regard.errors import SettingsError
from regard.models.build import FAMILIES
from regard.recipes.recipe_files import (
    RENAMED_SETTINGS,
    dump_recipe,
    explain_settings,
    fill_old_defaults,
    find_recipe,
    groups_at,
    load_recipe,
    make_recipe,
    read_raw,
    shelf_recipes,
)
from regard.tasks.registry import TASKS
from regard.tasks.translation.recipe import TranslationRecipe

COPY = {"name": "mine", "corpus": {"name": "copy"}}
SHELF = sorted(shelf_recipes())


def mistake(raw, *overrides):
    with pytest.raises(SettingsError) as caught:
        make_recipe(raw, overrides, where="mine.yaml")
    return str(caught.value)


def test_the_shelf_holds_recipes():
    assert len(SHELF) >= 5
    assert {"travel", "own"} <= set(SHELF)


@pytest.mark.parametrize("name", SHELF)
def test_a_shelf_recipe_is_called_what_its_file_is(name):
    recipe = load_recipe(name)
    assert recipe.name == name
    assert recipe.about.endswith(".")


@pytest.mark.parametrize("name", SHELF)
def test_a_recipe_written_out_is_read_as_the_same(name, tmp_path):
    recipe = load_recipe(name)
    file = tmp_path / "all.yaml"
    file.write_text(dump_recipe(recipe), encoding="utf-8")
    assert load_recipe(file) == recipe


def test_every_default_is_written_out():
    plain = yaml.safe_load(dump_recipe(make_recipe(COPY, where="mine.yaml")))
    assert plain["training"]["optimizer"]["betas"] == [0.9, 0.98]
    assert plain["decoding"]["sampling"] is None


def test_a_file_is_found_by_its_path(tmp_path):
    file = tmp_path / "mine.yml"
    file.write_text("name: mine\ncorpus: {name: copy}\nabout: « déjà »\n", encoding="utf-8")
    assert load_recipe(str(file), ["training.steps=7"]).training.steps == 7
    assert load_recipe(file).about == "« déjà »"
    assert read_raw(find_recipe(str(file)), where="here")["name"] == "mine"


@pytest.mark.parametrize(
    ("given", "found", "hint"),
    [
        ({"trainig": {}}, "trainig", "did you mean 'training'?"),
        ({"training": {"stpes": 5}}, "training.stpes", "did you mean 'steps'?"),
        (
            {"training": {"optimizer": {"learning_rte": 1}}},
            "training.optimizer.learning_rte",
            "did you mean 'learning_rate'?",
        ),
        ({"text": {"target": {"knid": "bpe"}}}, "text.target.knid", "did you mean 'kind'?"),
        (
            {"decoding": {"sampling": {"temprature": 1}}},
            "decoding.sampling.temprature",
            "did you mean 'temperature'?",
        ),
        (
            {"corpus": {"train": {"surce": "a", "target": "b"}}},
            "corpus.train.surce",
            "did you mean 'source'?",
        ),
        (
            {"corpus": {"name": "copy", "generated": {"tain": 5}}},
            "corpus.generated.tain",
            "did you mean 'train'?",
        ),
        (
            {"model": {"family": "transformer", "widht": 8}},
            "model.widht",
            "did you mean 'width'?",
        ),
        (
            {"model": {"family": "rnnsearch", "heads": 8}},
            "model.heads",
            "known keys here: family, width, embedding, alignment, readout, dropout",
        ),
        (
            {"zzz": 1},
            "zzz",
            "known keys here: task, name, about, start, corpus, text, model, training, refinement, "
            "decoding, evaluation, input",
        ),
    ],
)
def test_an_unknown_key_is_an_error_with_a_suggestion(given, found, hint):
    assert mistake({**COPY, **given}).splitlines()[0] == f"mine.yaml: {found}: unknown key; {hint}"


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("trainnig.steps=5", "mine.yaml: trainnig: unknown key; did you mean 'training'?"),
        ("training.stpes=5", "mine.yaml: training.stpes: unknown key; did you mean 'steps'?"),
        (
            "training.learning_rate=5",
            "mine.yaml: training.learning_rate: unknown key; did you mean "
            "'optimizer.learning_rate'?",
        ),
        (
            "warmup=5",
            "mine.yaml: warmup: unknown key; did you mean 'training.schedule.warmup'?",
        ),
        ("training.steps", "--set training.steps: expected KEY=VALUE, such as training.steps=1000"),
        ("=5", "--set =5: expected KEY=VALUE, such as training.steps=1000"),
        (
            "training.steps=[1",
            "--set training.steps=[1: '[1' is not a YAML value: line 1, column 3: expected ',' or "
            "']', but got '<stream end>'",
        ),
        ("name.x=5", "--set name.x=5: name is a single value, not a group"),
        ("model.width=8", f"mine.yaml: model.family: missing; there are {', '.join(FAMILIES)}"),
    ],
)
def test_mistakes_in_overrides(override, message):
    assert mistake(COPY, override) == message


@pytest.mark.parametrize(
    ("task", "corpus", "model", "message"),
    [
        (
            "text-classification",
            "trec6",
            {"encoder": {"width": 8}},
            "model.encoder.family: missing; there are gpt, awd-lstm, elmo, bert, roberta",
        ),
        (
            "language-model",
            "trec6-texts",
            {"family": "gtp"},
            "model.family: unknown, got 'gtp'; did you mean 'gpt'?",
        ),
        (
            "caption",
            "flickr8k",
            {"family": "show-attend-tell", "encoder": {"kind": 9}},
            "model.encoder.kind: unknown, got 9; there are efficientnet-lite0, cnn",
        ),
    ],
)
def test_models_are_suggested_that_the_place_takes(task, corpus, model, message):
    raw = {"task": task, "name": "mine", "corpus": {"name": corpus}, "model": model}
    assert mistake(raw) == f"mine.yaml: {message}"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"training": {"steps": 0}}, "training.steps: must be more than 0, got 0"),
        (
            {"training": {"steps": None}},
            "training.steps: must be a whole number, got None",
        ),
        ({"training": None}, "training: expected a group of settings, got nothing"),
        ({"training": [5]}, "training: expected a group of settings, got list"),
        ({"model": 5}, "model: expected a group of settings, got int"),
        (
            {"model": {"family": "transfomer"}},
            "model.family: unknown, got 'transfomer'; did you mean 'transformer'?",
        ),
        (
            {"model": {"family": 9}},
            f"model.family: unknown, got 9; there are {', '.join(FAMILIES)}",
        ),
        ({"model": {}}, f"model.family: missing; there are {', '.join(FAMILIES)}"),
        (
            {"text": {"source": {"kind": "bp"}}},
            "text.source.kind: must be 'bpe', 'unigram', 'words', 'whitespace', 'characters', "
            "'huggingface' or 'sentencepiece', got 'bp'",
        ),
        (
            {"training": {"optimizer": {"betas": [0.9, "x"]}}},
            "training.optimizer.betas.1: must be a number, got 'x'",
        ),
        (
            {"decoding": {"n_best": 9}},
            "decoding: n_best 9 asks for more answers than a beam of size 5 keeps: raise beam.size "
            "or lower n_best",
        ),
        ({"name": 3}, "name: must be a text, got 3"),
    ],
)
def test_values_that_do_not_fit(given, message):
    assert mistake({**COPY, **given}) == f"mine.yaml: {message}"


def test_every_mistake_is_told_at_once():
    told = mistake({"corpus": {"name": "copy"}, "training": {"steps": 0, "sed": 1}})
    assert told.splitlines() == [
        "mine.yaml: name: missing",
        "mine.yaml: training.steps: must be more than 0, got 0",
        "mine.yaml: training.sed: unknown key; did you mean 'seed'?",
    ]


@pytest.mark.parametrize(
    ("override", "read"),
    [
        ("training.steps=12", lambda recipe: recipe.training.steps == 12),
        ("training.steps=1_000", lambda recipe: recipe.training.steps == 1000),
        ("training.label_smoothing=0.25", lambda recipe: recipe.training.label_smoothing == 0.25),
        ("training.compile=true", lambda recipe: recipe.training.compile is True),
        ("training.validation.by=chrf", lambda recipe: recipe.training.validation.by == "chrf"),
        ("training.validation.patience=null", lambda r: r.training.validation.patience is None),
        (
            "training.optimizer.betas=[0.5, 0.6]",
            lambda recipe: recipe.training.optimizer.betas == (0.5, 0.6),
        ),
        ("corpus.generated={train: 9}", lambda recipe: recipe.corpus.generated.train == 9),
        ("corpus.generated.train=9", lambda recipe: recipe.corpus.generated.train == 9),
        ("about=a=b", lambda recipe: recipe.about == "a=b"),
        ("about=''", lambda recipe: recipe.about == ""),
        ("name='5'", lambda recipe: recipe.name == "5"),
        ("model.family=rnnsearch", lambda recipe: recipe.model.family == "rnnsearch"),
    ],
)
def test_overrides_of_every_type(override, read):
    assert read(make_recipe(COPY, [override], where="mine.yaml"))


def test_the_last_override_wins_and_what_was_given_is_not_changed():
    raw = {**COPY, "training": {"steps": 3, "seed": 4}}
    recipe = make_recipe(raw, ["training.steps=5", "training.steps=6"], where="mine.yaml")
    assert (recipe.training.steps, recipe.training.seed) == (6, 4)
    assert raw["training"] == {"steps": 3, "seed": 4}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"name: [1\n", r"bad\.yaml: cannot be read as YAML: "),
        (b"name: caf\xe9\n", r"bad\.yaml: not UTF-8: byte 10 is 0xe9"),
        (b"", r"bad\.yaml: a recipe is a mapping of settings, got nothing"),
        (b"- a\n", r"bad\.yaml: a recipe is a mapping of settings, got list"),
        (b"5\n", r"bad\.yaml: a recipe is a mapping of settings, got int"),
        (b"!!python/object/apply:os.getcwd []\n", r"bad\.yaml: cannot be read as YAML: "),
        (
            b"1: 2\nname: x\ncorpus: {name: copy}\n",
            r"bad\.yaml: 1: must be a text, like every key, got 1",
        ),
    ],
)
def test_files_that_are_no_recipes(tmp_path, content, message):
    file = tmp_path / "bad.yaml"
    file.write_bytes(content)
    with pytest.raises(SettingsError, match=message):
        load_recipe(file)


def test_a_file_that_cannot_be_read(tmp_path, monkeypatch):
    file = tmp_path / "mine.yaml"
    file.write_text("name: mine\n")

    def refuse(path, kind):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("regard.yaml_files.read_limited", refuse)
    with pytest.raises(SettingsError, match=r"mine\.yaml: cannot be read: Permission denied"):
        load_recipe(file)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no/such.yaml", "no/such.yaml: no such recipe file"),
        ("travle", "travle: no recipe of that name on the shelf; did you mean 'travel'?"),
        ("zzzz", "zzzz: no recipe of that name on the shelf; `regard recipes` lists them"),
    ],
)
def test_recipes_that_are_not_there(name, message):
    with pytest.raises(SettingsError) as caught:
        load_recipe(name)
    assert str(caught.value) == message


def test_agreement_of_two_passes_needs_dropout():
    raw = {**COPY, "training": {"consistency": 5.0}, "model": {"family": "luong"}}
    assert "the model has no dropout: set model.dropout" in mistake(raw, "model.dropout=0")
    assert make_recipe(raw, ["model.dropout=0.1"], where="mine.yaml").training.consistency == 5


@pytest.mark.parametrize(
    "override",
    [
        "model.preset=[1]",
        "model={family: {a: 1}}",
        "model=[1]",
        "corpus=!!set {a}",
        "training.steps=2001-99-99",
        'training.steps=!!int ""',
        "training.steps=" + "9" * 6000,
        "about=" + "[" * 9999,
        "a" + ".b" * 9999 + "=1",
        "name=[" + "x," * 9999 + "]",
    ],
)
def test_hostile_values_are_refused_in_one_line(override):
    said = mistake(COPY, override)
    assert "\n" not in said
    assert len(said) < 1000


def test_of_many_mistakes_some_are_told():
    said = mistake({**COPY, **{f"x{n}": n for n in range(5000)}}).splitlines()
    assert len(said) == 11
    assert said[-1] == "mine.yaml: and 4,990 more mistakes"


def test_settings_of_one_of_several_corpora():
    raw = {"name": "a", "corpus": {"train": [{"data": "a.tsv"}, {"data": "b", "format": "csv"}]}}
    found = make_recipe(raw, ["corpus.train.1.format=tsv"], where="x")
    assert [files.format for files in found.corpus.training_files()] == [None, "tsv"]
    assert make_recipe(yaml.safe_load(dump_recipe(found)), where="x") == found
    for key in ("2.format", "format"):
        with pytest.raises(SettingsError, match=r"list of 2: give one .* from 0 to 1"):
            make_recipe(raw, [f"corpus.train.{key}=tsv"], where="x")


@pytest.mark.parametrize(
    ("train", "message"),
    [
        ([{"data": "a.tsv", "weigt": 2}], "train.0.weigt: unknown key; did you mean 'weight'?"),
        ([{"data": "a.tsv", "weight": 0}], "train.0.weight: must be more than 0.0, got 0"),
        ([], "corpus: give either train"),
        (3, "corpus.train: expected a group of settings, got int"),
        ({"dat": "a.tsv"}, "corpus.train.dat: unknown key; did you mean 'data'?"),
    ],
)
def test_mistakes_in_a_list_of_corpora(train, message):
    with pytest.raises(SettingsError) as caught:
        make_recipe({"name": "a", "corpus": {"train": train}}, where="x")
    assert message in str(caught.value)


EXPERTS = {**COPY, "model": {"family": "moe", "experts": {"count": 6, "chosen": 3}}}


def test_an_old_name_of_a_setting_is_read_as_the_new_one():
    recipe = make_recipe(EXPERTS, where="x")
    assert recipe.model.experts.top_k == 3
    assert EXPERTS["model"]["experts"]["chosen"] == 3
    assert "chosen" not in dump_recipe(recipe)
    assert make_recipe(EXPERTS, ["model.experts.chosen=4"], where="x").model.experts.top_k == 4


def test_an_old_name_beside_the_new_one_is_refused():
    raw = {**COPY, "model": {"family": "moe", "experts": {"top_k": 2, "chosen": 3}}}
    assert "model.experts.chosen: unknown key" in mistake(raw)


def test_every_new_name_in_the_table_of_old_names_is_a_setting():
    schema = TranslationRecipe.model_json_schema()
    for old, new in RENAMED_SETTINGS.items():
        for setting, expected in ((old, False), (new, True)):
            *outer, name = setting.split(".")
            groups = groups_at(schema, schema, outer)
            assert any(name in group["properties"] for group in groups) is expected


def test_a_saved_run_keeps_the_defaults_of_settings_that_did_not_exist():
    decoding = {"beam": {"size": 3}, "rules": {}, "sampling": None}
    raw = fill_old_defaults({**COPY, "decoding": decoding, "input": {}})
    assert raw["input"] == {"language": None}
    filled = raw["decoding"]
    assert filled["beam"] == {"size": 3, "normalise": "gnmt"}
    assert filled["rules"] == {"excluded": "lost"}
    sampled = fill_old_defaults({**COPY, "decoding": {**decoding, "sampling": {"seed": 1}}})
    assert "beam" not in sampled["decoding"]


PAGE = Path(__file__).parents[2] / "docs" / "settings.md"


def groups(kind):
    """The settings classes inside an annotation, however deep."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        yield kind
        for field in kind.model_fields.values():
            yield from groups(field.annotation)
    for part in get_args(kind):
        yield from groups(part)


RECIPES = [TranslationRecipe, *(task.recipe() for task in TASKS.values())]
GROUPS = sorted({one for kind in RECIPES for one in groups(kind)}, key=lambda one: one.__name__)


def test_the_page_in_the_docs_is_what_is_printed():
    assert PAGE.read_text(encoding="utf-8") == explain_settings() + "\n", (
        "run: regard recipes settings > docs/settings.md"
    )


def test_groups_are_found():
    names = {group.__name__ for group in GROUPS}
    assert {
        "TranslationRecipe",
        "TransformerSettings",
        "TokenizerSettings",
        "GeneratedSettings",
    } <= names
    assert len(names) > 15


@pytest.mark.parametrize("group", GROUPS)
def test_every_group_is_explained(group):
    page = explain_settings()
    assert " ".join(group.__doc__.split()).replace("|", "\\|") in page


@pytest.mark.parametrize("group", GROUPS)
def test_every_setting_has_a_meaning(group):
    bare = [
        name
        for name, field in group.model_fields.items()
        if not field.description and not list(groups(field.annotation))
    ]
    assert bare == []


def test_every_setting_has_a_row_with_a_meaning():
    rows = [line for line in explain_settings().splitlines() if line.startswith("| `")]
    assert len(rows) >= sum(len(group.model_fields) for group in GROUPS)
    for row in rows:
        name, default, meaning = re.split(r"(?<!\\)\|", row)[1:-1]
        assert name.strip()
        assert default.strip()
        assert len(meaning.split()) > 1, row


@pytest.mark.parametrize(
    "row",
    [
        "| `steps` | `10000` | Updates of the weights. `auto`: chosen from the training pairs and "
        "the machine. |",
        "| `training` | see below | How the model is trained. |",
        "| `name` | required | The name of the run, which is written to `runs/NAME` by default. |",
        "| `sampling` | `null` | Sampling instead of beam search. |",
        '| `precision` | `"auto"` | One of `auto`, `float32`, `bfloat16`. The precision of matrix '
        "products; the weights themselves stay float32. `auto`: bfloat16 where the device has "
        "instructions for it (avx512_bf16 or AMX; NVIDIA from Ampere on), otherwise float32. |",
    ],
)
def test_rows_say_default_choices_and_meaning(row):
    assert row in explain_settings().splitlines()


def test_a_wrong_name_of_an_adapter_is_told_which_characters_it_may_have():
    said = mistake(COPY, "start.adapter=lo ra")
    assert "start.adapter: must consist of letters, digits, _, - and ." in said
    assert "got 'lo ra'" in said


@pytest.mark.parametrize("name", ["../../x", "/tmp/x", "a/b", "..", ".", "", "a\nb", "x" * 201])
def test_the_name_of_a_recipe_chooses_no_place(name):
    assert "name: must be a name, of which files are named" in mistake({**COPY, "name": name})


@pytest.mark.parametrize("name", ["mine 2", "日本語 (v1.5)", ".hidden", "a..b"])
def test_names(name):
    assert make_recipe({**COPY, "name": name}, where="mine.yaml").name == name
