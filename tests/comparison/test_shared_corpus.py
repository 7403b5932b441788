import pytest

from ladders import small_recipe
from regard.atomic_io import write_atomic
from regard.comparison.comparison_folder import ComparisonFolder
from regard.comparison.plan import Budget, PlanEntry, entries_of, entry_of_run, make_plan
from regard.comparison.shared_corpus import copy_shared_corpus, prepare_shared_corpus
from regard.errors import CorpusError
from regard.recipes.prepared_data import prepare_data
from regard.recipes.verification import verify


@pytest.fixture
def folder(tmp_path):
    return ComparisonFolder(tmp_path)


def entries(name, *overrides):
    return entries_of(small_recipe(name, *overrides), name, [1], Budget())


def shared(folder, *entries):
    notes = []
    plan = make_plan([e for some in entries for e in some], Budget(), 5)
    return prepare_shared_corpus(plan, folder, notes.append), notes


def test_one_corpus_is_read_once(folder):
    data, notes = shared(folder, entries("plain"), entries("search"))
    assert notes == ["reading and cleaning travel"]
    assert data.pairs == {"train": 200, "valid": 12, "test": 16}
    assert shared(folder, entries("plain"), entries("search")) == (data, [])


def test_unlike_corpora_are_refused(folder):
    other = entries("search", "corpus.generated={train: 150, valid: 12, test: 16}")
    with pytest.raises(
        CorpusError,
        match=r"plain-seed1 and search-seed1 do not learn from the same corpus: the SHA-256 of "
        r"the one's cleaned texts begins with \w{12}, of the other's with \w{12}; train all of "
        r"them on one, with --corpus NAME",
    ):
        shared(folder, entries("plain"), other)
    assert not any(folder.path.iterdir())  # what was read of them is gone
    shared(folder, entries("plain"))
    with pytest.raises(CorpusError):
        shared(folder, entries("plain"), other)
    assert shared(folder, entries("plain"))[1] == []  # what was there before is not


def test_a_finished_run_must_have_learned_from_the_same(folder, tiny_run):
    taken = entry_of_run(tiny_run, None)
    with pytest.raises(CorpusError, match="plain-seed1 and tiny-seed1 do not learn"):
        shared(folder, entries("plain"), [taken])
    same = entries("plain", "corpus.generated={train: 300, valid: 30, test: 20}")
    assert shared(folder, same, [taken])[0].pairs["train"] == 300


def test_a_run_gets_the_texts_that_were_read(folder):
    shared(folder, entries("plain"))
    entry: PlanEntry = entries("plain")[0]
    folder.run(entry).create()
    write_atomic(folder.run(entry).data / "train.source.txt", b"of a killed copy")
    copy_shared_corpus(entry, folder)
    notes = []
    data = prepare_data(entry.recipe, folder.run(entry), notes.append)
    assert notes == []
    assert len(list(data.read("test"))) == 16
    assert verify(folder.run(entry).path).whole
    (data.folder / "own.txt").write_text("kept")
    copy_shared_corpus(entry, folder)
    assert (data.folder / "own.txt").exists()
