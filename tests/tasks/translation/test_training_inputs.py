import json

import numpy as np
import pytest

from flips import flip
from number_pairs import PAIRS, recipe, write_files
from regard.corpora.corpus import Pair
from regard.errors import CorpusError
from regard.manifest import create_manifest, is_intact
from regard.tasks.translation.prepared_data import prepare_data
from regard.tasks.translation.training_inputs import prepare, prepare_store, prepare_tokenizers
from tiny import tiny_recipe


@pytest.fixture
def run(tmp_path):
    create_manifest(tmp_path / "run")
    return tmp_path / "run"


@pytest.fixture
def data(own, run):
    return prepare_data(own, run / "data", print)


def test_long_pairs_are_left_out_and_counted(tmp_path):
    prepared = prepare(tiny_recipe("training.max_tokens=20"), tmp_path, print)
    assert 0 < prepared.num_too_long < 300
    source, target = prepared.train.lengths()
    assert prepared.num_too_long == ((source > 20) | (target > 20)).sum()


def test_no_pair_short_enough_is_an_error(tmp_path):
    with pytest.raises(
        CorpusError,
        match=r"none of the 300 training pairs has at most 1 tokens on both sides; raise "
        r"training\.max_tokens",
    ):
        prepare(tiny_recipe("training.max_tokens=1"), tmp_path, print)


def test_tokenizers_are_learned_once(own, run, data):
    told = []
    first = prepare_tokenizers(own, data, run, told.append)
    again = prepare_tokenizers(own, data, run, told.append)
    assert told == ["learning the vocabulary"]
    assert again.source.fingerprint() == first.source.fingerprint()
    assert first.source is first.target


def test_a_damaged_mark_has_tokenizers_learned_again(own, run, data):
    told = []
    prepare_tokenizers(own, data, run, told.append)
    (data.folder / "text.mark").write_bytes(b"\xff")
    prepare_tokenizers(own, data, run, told.append)
    assert told == ["learning the vocabulary"] * 2


def test_other_settings_make_other_tokenizers(own, run, data):
    told = []
    first = prepare_tokenizers(own, data, run, told.append)
    changed = recipe(json.loads(own.corpus.model_dump_json()), "text.joint=false")
    again = prepare_tokenizers(changed, data, run, told.append)
    assert len(told) == 2
    assert again.source is not again.target
    assert again.source.size < first.source.size  # no "and"


def test_tokenizers_know_nothing_of_held_out_text(tmp_path, run):
    valid = write_files(tmp_path, [Pair("zebra", "zèbre")], "valid")
    corpus = {"train": write_files(tmp_path, PAIRS), "valid": valid, "split": {"test": 0}}
    wanted = recipe(corpus)
    data = prepare_data(wanted, run / "data", print)
    source, _ = prepare_tokenizers(wanted, data, run, print)
    assert source.decode(source.encode(["zebra"])[0]) != "zebra"
    assert source.decode(source.encode(["seven go"])[0]) == "seven go"


def test_tokens_are_made_once(own, run, data):
    told = []
    tokenizers = prepare_tokenizers(own, data, run, print)
    first = prepare_store(data, "train", tokenizers, told.append)
    again = prepare_store(data, "train", tokenizers, told.append)
    assert told == ["tokenising 88 pairs of train"]
    assert len(first) == len(again) == 88
    ids = first.take(np.array([0])).source.ids.tolist()
    assert tokenizers.source.decode(ids) == next(data.read("train")).source


def test_tokens_that_differ_from_the_manifest_are_made_again(own, run, data):
    told = []
    tokenizers = prepare_tokenizers(own, data, run, print)
    store = prepare_store(data, "valid", tokenizers, print)
    flip(store.path, store.path.stat().st_size // 3)
    prepare_store(data, "valid", tokenizers, told.append)
    assert told == ["tokenising 7 pairs of valid"]
    assert is_intact(store.path)


def test_a_resumed_run_keeps_its_tokenizers(own, run, data):
    told = []
    first = prepare_tokenizers(own, data, run, print)
    other = recipe({"train": {"data": "x.tsv"}}, "text.source.lowercase=true")
    kept = prepare_tokenizers(other, data, run, told.append, resumed=True)
    assert kept.source.fingerprint() == first.source.fingerprint()
    assert told == []


def test_given_tokenizers_are_used_and_made_again_if_others_are_given(own, run, data, tmp_path):
    told = []
    own_tokenizers = prepare_tokenizers(own, data, run, print)
    other = recipe({"train": {"data": "x.tsv"}}, "text.source.lowercase=true")
    given = prepare_tokenizers(other, data, tmp_path / "other", print)
    taken = prepare_tokenizers(own, data, run, told.append, given=given)
    assert told == []
    assert taken.source.fingerprint() == given.source.fingerprint()
    again = prepare_tokenizers(own, data, run, told.append)
    assert told == ["learning the vocabulary"]
    assert again.source.fingerprint() == own_tokenizers.source.fingerprint()
