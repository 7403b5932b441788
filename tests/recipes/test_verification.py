import random
import shutil
import warnings

import pytest

from flips import flip
from regard.engines.ctranslate2.ct2_engine import open_ct2_engine
from regard.engines.ctranslate2.export_artifact import find_export
from regard.errors import RegardError, RunError, RunWarning
from regard.manifest import sha256_of_file
from regard.recipes.run_folder import RunFolder, load_data
from regard.recipes.verification import accept, verify
from regard.tasks.translation.pipeline import load

GROW = ("metrics.jsonl", "tensorboard/", ".lock")


@pytest.fixture(scope="module")
def exported(tiny_run, tmp_path_factory):
    """The folder of a run with an export."""
    path = shutil.copytree(tiny_run, tmp_path_factory.mktemp("verified") / "run")
    load(path, device="cpu")
    return path


@pytest.fixture
def copied(exported, tmp_path):
    return shutil.copytree(exported, tmp_path / "run")


def fast(run):
    """The engine that plain translations of a run are made by, as long as its export is whole."""
    found = find_export(run, run / "model.safetensors", "model", "auto")
    return open_ct2_engine(found) if found else None


def answers(run):
    """What `translate` and `evaluate` say, natively: of the same pairs, the same translations."""
    pairs = list(load_data(RunFolder(run)).read("test"))[:1]
    found = load(run, device="cpu", engine="native").translate([pair.source for pair in pairs])
    return pairs, [answer.text for answer in found]


def test_a_bit_flipped_in_any_file_is_found_and_never_gives_a_wrong_answer(copied):
    files = [path for path in sorted(copied.rglob("*")) if path.is_file()]
    names = {path: path.relative_to(copied).as_posix() for path in files}
    files = [path for path in files if not names[path].startswith(GROW)]
    assert len(files) > 30
    assert verify(copied).findings == ()
    right, rng = answers(copied), random.Random(0)
    refused = []
    for path in files:
        where = rng.randrange(path.stat().st_size), rng.randrange(8)
        flip(path, *where)
        damaged = [one.file for one in verify(copied).findings if one.state == "damaged"]
        assert names[path] in damaged
        with warnings.catch_warnings(record=True) as with_remedies:
            warnings.simplefilter("always", RunWarning)
            try:
                same = answers(copied) == right
            except RegardError:
                refused.append(names[path])
            else:
                assert with_remedies or same, (names[path], where)
        if "ctranslate2" in names[path]:  # of several exports another may be used
            used = fast(copied)
            assert used is None or used.folder not in path.parents
        flip(path, *where)
    assert verify(copied).findings == ()
    assert fast(copied) is not None
    assert [name for name in refused if name != "recipe.yaml"] == [  # which may be edited in part
        "data/prepared.json",
        "data/test.source.txt",
        "data/test.target.txt",
        "manifest.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer.model",
    ]


def test_what_can_be_made_again_is_said(copied):
    again = {
        "card.md": "regard train --resume",
        "data/train.pairs": "regard train --resume",
        "weights/average.safetensors": "regard average",
        "alignment.json": "regard align",
        "data/test.target.txt": "restore it from a copy",
        "weights/last.safetensors": "copy ",
        "tokenizer.json": "copy ",
    }
    last = next((copied / "weights").glob("step-*60.safetensors"))
    assert sha256_of_file(last) == sha256_of_file(copied / "weights" / "last.safetensors")
    for name in again:
        flip(copied / name)
    (copied / "tokenizer.model").unlink()
    (copied / "own.txt").touch()
    found = {one.file: one for one in verify(copied).findings}
    assert found.keys() == {*again, "tokenizer.model", "own.txt"}
    assert all(remedy in found[name].remedy for name, remedy in again.items())
    assert found["tokenizer.model"].state == "missing"
    assert found["tokenizer.model"].remedy.startswith(f"copy {copied}/ctranslate2/model-")
    assert found["own.txt"].state == "unexpected"
    accept(copied)
    assert verify(copied).findings == ()


def test_what_is_not_ours_or_from_before_is_not_verified(copied, tmp_path):
    with pytest.raises(RunError, match="neither a run nor an export nor a comparison"):
        verify(tmp_path)
    with pytest.raises(RunError, match="neither a run"):
        accept(tmp_path)
    (copied / "manifest.json").unlink()
    with pytest.raises(RunError, match=r"has no manifest\.json: it is from a version"):
        verify(copied)
    with RunFolder(copied).locked(), pytest.raises(RunError, match="a process is writing there"):
        accept(copied)


@pytest.mark.parametrize("check", [verify, accept])
def test_a_folder_that_is_not_there_is_told(tmp_path, check):
    with pytest.raises(RunError, match="nothing: no such folder"):
        check(tmp_path / "nothing")
