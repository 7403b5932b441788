import asyncio
import shutil

import pytest
import yaml

from regard.engines.ctranslate2.export_artifact import find_export
from regard.errors import RunError, RunWarning, SettingsError
from regard.recipes.run_folder import RunFolder, load_data
from regard.server.errors import RequestError
from regard.server.served_models import (
    LanguageDirection,
    LoadOptions,
    Models,
    ModelSpec,
    language_name,
    parse_model_spec,
    read_examples,
)
from regard.server.settings import ServerSettings
from regard.server.telemetry import ServerMetrics


def load(*arguments):
    specs = [parse_model_spec(str(one)) for one in arguments]
    return Models(specs, ServerSettings(), ServerMetrics(), LoadOptions(device="cpu"))


@pytest.fixture
def copied(tiny_run, tmp_path):
    return shutil.copytree(tiny_run, tmp_path / "copied")


def test_the_languages_of_a_run_are_those_of_its_corpus(tiny_run):
    assert parse_model_spec(str(tiny_run)) == (("fr", "en"), tiny_run)


def test_languages_can_be_named(tiny_run):
    assert parse_model_spec(f"de-nl={tiny_run}") == (("de", "nl"), tiny_run)


@pytest.mark.parametrize("pair", ["fr", "fr-", "fr-en-de", ""])
def test_a_malformed_language_pair_is_an_error(tiny_run, pair):
    with pytest.raises(SettingsError, match="expected SOURCE-TARGET=FOLDER"):
        parse_model_spec(f"{pair}={tiny_run}")


def test_a_run_without_known_languages_is_an_error(copied):
    shutil.rmtree(copied / "data")
    with pytest.raises(SettingsError, match="name them: regard serve fr-en="):
        parse_model_spec(str(copied))
    assert parse_model_spec(f"fr-en={copied}").path == copied


def test_a_folder_that_is_no_run_is_an_error(tmp_path):
    with pytest.raises(RunError, match="not a run"):
        parse_model_spec(str(tmp_path))
    with pytest.raises(RunError, match="no such folder"):
        load(f"fr-en={tmp_path / 'nowhere'}")


def test_two_models_for_one_language_pair_are_an_error(tiny_run, other_run):
    with pytest.raises(SettingsError, match="translates fr-en already; serve one of them"):
        load(tiny_run, other_run)


def test_models_are_loaded_with_the_given_engine_and_precision(copied):
    specs = [parse_model_spec(str(copied))]

    def translator(**how):
        load_options = LoadOptions("cpu", **how)
        return (
            Models(specs, ServerSettings(), ServerMetrics(), load_options)
            .find("fr", "en")
            .translator
        )

    assert translator(engine="native").engine_for() == "native"
    assert translator(precision="int8").engine_for() == "ctranslate2"
    export = find_export(copied, copied / "model.safetensors", "model", "int8")
    assert export is not None  # which `auto` may have made before
    assert export.card.precision == "int8"
    with pytest.raises(SettingsError, match="int16 needs CTranslate2"):
        translator(engine="native", precision="int16")


def test_models_are_found_by_their_languages(tiny_run, other_run):
    models = load(tiny_run, f"en-fr={other_run}", f"de-en={other_run}")
    assert models.find("en", "fr").path == other_run
    assert models.sources() == ["fr", "en", "de"]
    assert models.sources("en") == ["fr", "de"]
    assert models.targets() == ["en", "fr"]
    assert models.targets("fr") == ["en"]
    with pytest.raises(RequestError, match="fr-de is not supported; this server has fr-en, en-fr"):
        models.find("fr", "de")


def test_training_texts_are_by_language(tiny_run, copied):
    shutil.rmtree(copied / "data")
    texts = load(tiny_run, f"de-en={copied}").training_texts(7)
    assert {language: len(lines) for language, lines in texts.items()} == {"fr": 7, "en": 7}


@pytest.mark.parametrize(
    ("code", "name"), [("fr", "French"), ("pt-BR", "Portuguese (Brazil)"), ("x1", "x1"), ("", "")]
)
def test_languages_have_english_names(code, name):
    assert language_name(code) == name


def test_new_weights_are_noticed_and_loaded(copied):
    models = load(copied)
    [served] = models.served
    before = served.translator
    assert not served.weights_changed()
    shutil.copy(copied / "weights" / "last.safetensors", copied / "new")
    (copied / "new").replace(copied / "model.safetensors")
    assert served.weights_changed()
    asyncio.run(models.reload())
    assert not served.weights_changed()
    assert served.translator is not before


def test_exporting_is_logged_before_it_begins(copied, caplog):
    pytest.importorskip("ctranslate2")
    shutil.rmtree(copied / "ctranslate2", ignore_errors=True)
    with caplog.at_level("INFO"):
        load(copied)
    first, second = (record for record in caplog.records if record.name == "regard.server")
    assert (first.message, second.message) == ("loading", "loaded")
    assert first.facts["remark"].startswith("exporting for CTranslate2")
    assert second.facts["remark"].startswith("exported for CTranslate2")


def test_a_model_that_cannot_be_reloaded_stays(copied, caplog):
    models = load(copied)
    [served] = models.served
    before = served.translator
    (copied / "model.safetensors").write_bytes(b"half of i")
    assert served.weights_changed()
    asyncio.run(models.reload())
    assert served.translator is before
    assert not served.weights_changed(), "it would be tried again and again"
    assert "reload failed" in caplog.text
    assert "model.safetensors" in caplog.records[-1].facts["reason"]


def test_missing_weights_have_changed(copied):
    [served] = load(copied).served
    (copied / "model.safetensors").unlink()
    assert served.weights_changed()


def test_a_direction_is_written_with_a_hyphen():
    assert str(LanguageDirection("fr", "en")) == "fr-en"


def test_files_of_ones_own_give_no_examples(tiny_run, tmp_path):
    run = shutil.copytree(tiny_run, tmp_path / "run")
    (run / "manifest.json").unlink()
    spec = ModelSpec(LanguageDirection("fr", "en"), run)
    with pytest.warns(RunWarning, match="manifest"):
        assert len(read_examples(spec)) == 2
    recipe = yaml.safe_load((run / "recipe.yaml").read_text("utf-8"))
    files = {"source": "letters.fr", "target": "letters.en"}
    recipe["corpus"] = {"train": files, "languages": ["fr", "en"]}
    (run / "recipe.yaml").write_text(yaml.safe_dump(recipe), encoding="utf-8")
    with pytest.warns(RunWarning, match="manifest"):
        assert read_examples(spec) == ()
    data = load_data(RunFolder(run))
    assert data.languages == spec.languages
    assert any(data.read(data.held_out())), "there is something to show, but it is confidential"
