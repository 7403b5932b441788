import io
import os
from collections import Counter
from pathlib import Path

import pytest

from flips import flip
from number_pairs import PAIRS, recipe, write_files
from regard.corpora.corpus import Pair
from regard.corpora.pair_texts import PairFiles
from regard.errors import CorpusError, DamagedError, RunError
from regard.evaluation.pharaoh import read_pharaoh
from regard.recipes.run_folder import RunFolder, load_data
from regard.tasks.translation.prepared_data import prepare_data


def prepared(wanted, path, told=None, *, resumed=False):
    note = (told if told is not None else []).append
    return prepare_data(wanted, path / "data", note, resumed=resumed)


@pytest.fixture
def run(tmp_path):
    return tmp_path / "run"


def test_own_files_are_split(own, run):
    data = prepared(own, run)
    assert data.pairs == {"valid": 7, "test": 5, "train": 88}
    splits = {split: list(data.read(split)) for split in data.pairs}
    assert {split: len(pairs) for split, pairs in splits.items()} == data.pairs
    assert sorted(pair for pairs in splits.values() for pair in pairs) == sorted(PAIRS)
    assert data.languages == ("und", "und")
    assert "train.source" in data.origin
    assert data.held_out() == "test"
    assert not list(run.rglob("cleaned.*"))


def test_training_pairs_alone_are_joined(own, run):
    alone = prepared(own, run)
    data = prepared(
        own.model_copy(update={"corpus": own.corpus.model_copy(update={"join": 3})}), run
    )
    assert {name: data.pairs[name] for name in ("valid", "test")} == {"valid": 7, "test": 5}
    assert data.pairs["train"] < 88
    words = [word for pair in data.read("train") for word in pair.source.split()]
    assert len(words) == 3 * 88
    assert data.digest != alone.digest


def test_without_a_test_split_the_scores_are_on_valid(tmp_path, run):
    wanted = recipe({"train": write_files(tmp_path, PAIRS), "split": {"valid": 7, "test": 0}})
    data = prepared(wanted, run)
    assert data.pairs["test"] == 0
    assert list(data.read("test")) == []
    assert data.held_out() == "valid"


def test_data_are_prepared_once(own, run):
    told = []
    first = prepared(own, run, told)
    assert told[0].startswith("reading and cleaning ")
    times = {file: file.stat().st_mtime_ns for file in (run / "data").iterdir()}
    again = prepared(own, run, told)
    assert again == first == load_data(RunFolder(run))
    assert {file: file.stat().st_mtime_ns for file in (run / "data").iterdir()} == times
    assert sum(message.startswith("reading") for message in told) == 1


def test_a_changed_file_is_read_again(own, run, tmp_path):
    first = prepared(own, run)
    write_files(tmp_path, [*PAIRS, Pair("eleven go", "go and eleven")])
    again = prepared(own, run)
    assert sum(again.pairs.values()) == 101
    assert again.digest != first.digest


def test_changed_settings_are_heeded(tmp_path, run):
    files = write_files(tmp_path, PAIRS)
    first = prepared(recipe({"train": files, "split": {"valid": 7, "test": 5}}), run)
    again = prepared(recipe({"train": files, "split": {"valid": 9, "test": 5}}), run)
    assert (first.pairs["valid"], again.pairs["valid"]) == (7, 9)


def test_a_resumed_run_goes_on_with_what_it_read(own, run, tmp_path):
    told = []
    first = prepared(own, run)
    write_files(tmp_path, PAIRS[:50])
    again = prepared(own, run, told, resumed=True)
    assert again == first
    assert told == [
        f"{own.corpus.corpus_label} has changed; the run continues with the data it read before"
    ]
    for file in (own.corpus.train.source, own.corpus.train.target):
        os.remove(file)
    assert prepared(own, run, resumed=True) == first


def test_the_standard_input_is_read_once_and_kept(run, monkeypatch):
    table = "".join(f"{source}\t{target}\n" for source, target in PAIRS)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(table.encode())))
    wanted = recipe({"train": {"data": "-", "format": "tsv"}, "split": {"valid": 6, "test": 4}})
    first = prepared(wanted, run)
    assert first.pairs == {"valid": 6, "test": 4, "train": 90}
    assert prepared(wanted, run) == first  # though nothing is left to read


@pytest.mark.parametrize("way", ["one", "several", "mixed in", "joined"])
def test_training_pairs_that_give_held_out_ones_away_are_dropped(way, tmp_path, run):
    held_out = [Pair("One  Two GO", "never said"), Pair("never heard", "go ten and ten")]
    files, others = (
        write_files(tmp_path, some, name)
        for some, name in ((PAIRS, "train"), ([Pair(f"x {n}", f"y {n}") for n in range(99)], "own"))
    )
    corpus = {"train": files}
    if way == "several":
        corpus = {"train": [others, {**files, "weight": 2}]}
    elif way == "mixed in":
        corpus = {"train": others, "mix": [{**files, "share": 0.5}]}
    elif way == "joined":
        corpus["join"] = 2
    valid = write_files(tmp_path, held_out, "valid")
    data = prepared(recipe({**corpus, "valid": valid, "split": {"test": 0}}), run)
    left = list(data.read("train"))
    assert any("one three go" in pair.source for pair in left)
    assert not any("one two go" in pair.source or "ten and ten" in pair.target for pair in left)
    assert data.report.dropped == {"in valid or test": 2}
    assert list(data.read("valid"))[1] == held_out[1]


def test_what_is_dropped_is_counted_and_the_count_is_kept(tmp_path, run):
    odd = [Pair("", "nothing"), Pair("same", "same"), PAIRS[0], PAIRS[0]]
    wanted = recipe(
        {"train": write_files(tmp_path, [*PAIRS, *odd]), "split": {"valid": 5, "test": 5}}
    )
    prepared(wanted, run)
    report = load_data(RunFolder(run)).report
    assert report.dropped == {"empty": 1, "source equals target": 1, "duplicate": 2}
    assert report.total == 104


def test_held_out_files_are_not_cleaned(tmp_path, run):
    odd = [Pair("same", "same"), Pair("same", "same"), Pair("", "")]
    wanted = recipe(
        {
            "train": write_files(tmp_path, PAIRS),
            "valid": write_files(tmp_path, odd, "valid"),
            "split": {"test": 0},
        }
    )
    assert list(prepared(wanted, run).read("valid")) == odd


def test_spaces_at_the_ends_go(tmp_path, run):
    odd = [Pair(f"  {pair.source}\t", f"{pair.target}\u3000 ") for pair in PAIRS]
    wanted = recipe({"train": write_files(tmp_path, odd), "split": {"valid": 5, "test": 5}})
    data = prepared(wanted, run)
    assert set(data.read("train")) < set(PAIRS)


def test_a_split_smaller_than_asked_is_told(tmp_path, run):
    told = []
    prepared(recipe({"train": write_files(tmp_path, PAIRS)}), run, told)
    assert any("valid holds 10 of 100 pairs instead of 1,000" in message for message in told)


def test_nothing_left_is_an_error(tmp_path, run):
    same = [Pair(source, source) for source, _ in PAIRS]
    valid = write_files(tmp_path, PAIRS[:3], "valid")
    wanted = recipe(
        {"train": write_files(tmp_path, same), "valid": valid, "split": {"test": 0}},
    )
    with pytest.raises(
        CorpusError,
        match=r"0 pairs are too few; of 100, 100 were dropped as 'source equals target': see "
        r"corpus\.cleaning",
    ):
        prepared(wanted, run)


def test_nothing_to_validate_with_is_an_error(tmp_path, run):
    wanted = recipe({"train": write_files(tmp_path, PAIRS), "split": {"valid": 0, "test": 5}})
    with pytest.raises(CorpusError, match="95 pairs to train on and 0 to validate with"):
        prepared(wanted, run)


def test_a_failure_leaves_data_that_are_made_again(tmp_path, run):
    files = write_files(tmp_path, PAIRS)
    with pytest.raises(CorpusError):
        prepared(recipe({"train": files, "split": {"valid": 0}}), run)
    assert prepared(recipe({"train": files}), run).pairs["train"] == 80


def test_gold_alignments_lie_beside_the_held_out_splits(run):
    generated = {"train": 40, "valid": 8, "test": 6}
    data = prepared(recipe({"name": "travel", "generated": generated}), run)
    for split in ("valid", "test"):
        pairs = list(data.read(split))
        gold = list(read_pharaoh(data.gold(split).read_text().splitlines()))
        assert len(gold) == len(pairs) == generated[split]
        for pair, truth in zip(pairs, gold, strict=True):
            assert truth.sure
            assert all(s < len(pair.source.split()) for s, _ in truth.possible)
            assert all(t < len(pair.target.split()) for _, t in truth.possible)
    assert not data.gold("train").exists()


def test_a_corpus_without_gold_has_no_such_files(own, run):
    assert not prepared(own, run).gold("valid").exists()


def test_data_that_are_gone(own, run):
    run.mkdir()
    with pytest.raises(RunError, match="not a run"):
        load_data(RunFolder(run))
    RunFolder(run).save_recipe(own)
    with pytest.raises(RunError, match=r"its data are gone: .*prepared\.json is missing"):
        load_data(RunFolder(run))


@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_bytes(b"\xff\n")])
def test_splits_that_are_not_what_was_written(own, run, damage):
    data = prepared(own, run)
    damage(PairFiles.of(data.folder, "test").target)
    with pytest.raises(RunError, match=r"test\.target\.txt: gone, or no longer as they were"):
        list(data.read("test"))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "is not JSON"),
        ("{}", "mark: is missing"),
        ("[]", "must be a group of named values"),
        ('{"pairs": {"train": "many"}}', "mark: is missing"),
    ],
)
def test_damaged_data(own, run, content, said):
    prepared(own, run)
    (run / "data" / "prepared.json").write_text(content)
    with pytest.raises(
        RunError, match=rf"prepared\.json: damaged, or of another version of regard: {said}"
    ):
        load_data(RunFolder(run))
    with pytest.raises(RunError, match="damaged"):
        prepared(own, run)


def test_what_differs_from_the_manifest_is_made_again_or_refused(own, run):
    folder = RunFolder(run)
    folder.save_recipe(own)
    data = prepared(own, run)
    flip(PairFiles.of(data.folder, "valid").source)
    with pytest.raises(DamagedError, match=r"valid\.source\.txt: not what was written there"):
        next(data.read("valid"))
    flip(folder.data / "prepared.json", 30)
    with pytest.raises(DamagedError, match=r"prepared\.json: not what was written there"):
        load_data(folder)
    assert prepared(own, run) == data  # of a run that has not begun


def test_the_digest_is_of_the_texts_alone(own, run, tmp_path):
    (tmp_path / "moved").mkdir()
    files = write_files(tmp_path / "moved", PAIRS)
    moved = recipe({"train": files, "split": {"valid": 7, "test": 5}})
    assert prepared(own, run).digest == prepared(moved, tmp_path / "other").digest


def test_several_corpora_by_weight(tmp_path, run):
    first = {**write_files(tmp_path, PAIRS[:60], "a"), "weight": 1}
    second = {**write_files(tmp_path, PAIRS[50:], "b"), "weight": 3}
    third = {**write_files(tmp_path, [Pair(f"x {n}", f"y {n}") for n in range(99)], "c")}
    wanted = recipe(
        {"train": [first, second, {**third, "weight": 0.1}], "split": {"valid": 9, "test": 8}}
    )
    data = prepared(wanted, run)
    train, held_out = Counter(data.read("train")), [*data.read("valid"), *data.read("test")]
    assert len(held_out) == len(set(held_out)) == 17
    assert not train.keys() & set(held_out)
    assert {train[pair] for pair in PAIRS[:60] if pair not in held_out} == {1}  # also 50 to 60
    assert {train[pair] for pair in PAIRS[60:] if pair not in held_out} == {3}
    thin = [pair for pair in [*train, *held_out] if pair.source.startswith("x")]
    assert 3 < len(thin) < 20
    assert data.report.dropped == {"duplicate": 10}
    assert "b.target (weight 3)" in data.origin


def test_one_file_in_a_list_is_that_file(own, tmp_path, run):
    listed = recipe(
        {
            **own.corpus.model_dump(exclude_unset=True),
            "train": [own.corpus.train.model_dump(exclude_unset=True)],
        }
    )
    assert prepared(own, run).digest == prepared(listed, tmp_path / "other").digest


def test_what_was_skipped_is_told(tmp_path, run):
    file = tmp_path / "a.tsv"
    file.write_text("source\ttarget\n" + "".join(f"{a}\t{b}\n" for a, b in PAIRS) + "alone\n")
    settings = {"train": {"data": str(file)}, "split": {"valid": 7, "test": 5}}
    with pytest.raises(CorpusError, match=r"line 102: column 1 .* --skip-bad"):
        prepared(recipe(settings), run)
    told = []
    prepared(recipe(settings, "corpus.train.skip_bad=true"), run, told)
    assert [one.partition(": ")[2][:30] for one in told[-2:]] == [
        "line 1 is a header (source, ta",
        "skipped 1 rows with too few co",
    ]
