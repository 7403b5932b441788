import pytest
from pydantic import ValidationError

from regard.corpora.cleaning.pair_filters import CleaningReport, CleaningSettings, clean
from regard.corpora.generated.generator import GeneratedSettings
from regard.corpora.pairs.build import CORPORA, UNCLEANED, CorpusSettings, build_corpus
from regard.corpora.readers.pair_files import FilesSettings
from regard.corpora.splits import drop_leaks
from regard.errors import CorpusError

GENERATED = [name for name, entry in CORPORA.items() if entry.group == "generated"]
SMALL = GeneratedSettings(train=60, valid=5, test=7)


def settings(**given):
    return CorpusSettings.model_validate(given)


@pytest.mark.parametrize("name", GENERATED)
def test_generated_corpora_have_the_sizes_asked_for(name):
    corpus = build_corpus(settings(name=name, generated={"train": 60, "valid": 5, "test": 7}))
    assert corpus.name == name
    assert {split: len(list(read())) for split, read in corpus.splits.items()} == {
        "train": 60,
        "valid": 5,
        "test": 7,
    }


@pytest.mark.parametrize("name", GENERATED)
def test_nothing_of_a_generated_corpus_is_dropped(name):
    given = settings(name=name, generated=SMALL)
    corpus, report = build_corpus(given), CleaningReport()
    held_out = [*corpus.splits["valid"](), *corpus.splits["test"]()]
    pairs = clean(corpus.splits["train"](), given.cleaning, corpus.languages, report)
    assert len(list(drop_leaks(pairs, held_out, report))) == 60


def test_generated_corpora_are_cleaned_if_asked():
    assert settings(name="copy").cleaning == UNCLEANED
    assert settings(name="copy", cleaning={}).cleaning == CleaningSettings()
    assert settings(name="multi30k").cleaning == CleaningSettings()


@pytest.mark.parametrize("name", sorted(CORPORA))
def test_every_corpus_has_a_line_about_it_and_default_options(name):
    entry = CORPORA[name]
    assert 20 < len(entry.about) < 80
    assert entry.group in CorpusSettings.model_fields
    assert settings(name=name).corpus_label == name


def test_named_corpora_take_their_own_options(monkeypatch, tmp_path):
    monkeypatch.setenv("REGARD_DATA", str(tmp_path))
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path))
    given = settings(name="tatoeba", tatoeba={"pair": "fra-eng"})
    with pytest.raises(CorpusError, match=r"tatoeba/train\.eng-fra\.tsv\.gz"):
        build_corpus(given)


def test_ones_own_files(tmp_path):
    source, target, table = (tmp_path / name for name in ("a.en", "a.de", "b.tsv"))
    source.write_text("one\ntwo\n")
    target.write_text("eins\nzwei\n")
    table.write_text("three\tdrei\n")
    corpus = build_corpus(
        settings(
            train={"source": str(source), "target": str(target)},
            valid={"data": str(table)},
            languages=["en", "de"],
        )
    )
    assert corpus.languages == ("en", "de")
    assert {split: list(read()) for split, read in corpus.splits.items()} == {
        "train": [("one", "eins"), ("two", "zwei")],
        "valid": [("three", "drei")],
    }
    assert str(source) in corpus.origin


@pytest.mark.parametrize(
    ("own", "files", "expected"),
    [
        (None, None, ("und", "und")),
        (("en", "de"), None, ("en", "de")),
        (None, ("en-GB", "de-AT"), ("en-GB", "de-AT")),
        (("en", "de"), ("en-GB", "de-AT"), ("en", "de")),
    ],
)
def test_languages_are_those_of_the_corpus_or_of_its_files(own, files, expected):
    data = {"data": "a.tmx" if own or files else "a.tsv", "languages": files}
    assert build_corpus(settings(train=data, languages=own)).languages == expected


HELD_OUT = {name: {"data": f"{name}.tsv"} for name in ("train", "valid", "test")}


def test_settings_survive_being_written():
    given = settings(name="travel", generated=SMALL)
    assert CorpusSettings.model_validate_json(given.model_dump_json()) == given


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"name": "travle"}, "no corpus is named 'travle'; did you mean 'travel'\\? known: travel"),
        ({"name": "wmt14"}, "no corpus is named 'wmt14'; known: travel, dates"),
        ({"name": "multi30k", "generated": {}}, "generated would have no effect on multi30k"),
        ({"name": "dates", "languages": ["a", "b"]}, "languages would have no effect on dates"),
        ({"name": "sort", "split": {"valid": 3}}, "split would have no effect on sort"),
        ({"train": {"data": "a.tsv"}, "tatoeba": {}}, "tatoeba would have no effect on a.tsv"),
        (
            HELD_OUT | {"split": {"valid": 3}},
            "split.valid would have no effect beside valid and te",
        ),
        (
            HELD_OUT | {"split": {"test": 0}},
            "split.test would have no effect beside valid and test",
        ),
        (
            HELD_OUT | {"split": {"seed": 2}},
            "split.seed would have no effect beside valid and test",
        ),
        ({"train": {"data": "a.tmx"}}, r"give languages, such as \[en, de\]: a.tmx may hold"),
        ({"name": "travel", "generated": {"train": 0}}, "greater than 0"),
        ({"name": ["travel"]}, "valid string"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(given, message):
    with pytest.raises(ValidationError, match=message):
        settings(**given)


def test_label_names_the_files():
    assert settings(train={"data": "a.tsv"}).corpus_label == "a.tsv"
    files = FilesSettings(source="a.en", target="a.de")
    assert CorpusSettings(train=files).corpus_label == "a.en and a.de"
