import json

import pytest
from typer.testing import CliRunner

from regard.cli.catalogues.corpora import app
from regard.corpora.download import data_folder
from regard.errors import SettingsError

NAMES = [
    *("travel", "dates", "copy", "reverse", "sort", "dailydialog", "multi30k", "tatoeba"),
    *("tinyshakespeare", "ptb", "wikitext-2", "trec6-texts", "sst2-texts", "fibonacci"),
    *("flickr8k", "squares", "trec6", "sst2", "mnist", "cifar10"),
]
FEW = ("--set", "corpus.generated.train=50")


def run(*args):
    return CliRunner().invoke(app, args, catch_exceptions=False)


def test_the_list_names_every_corpus(monkeypatch, tmp_path):
    (tmp_path / "multi30k").mkdir()
    monkeypatch.setenv("REGARD_DATA", str(tmp_path))
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "300")
    lines = run().output.splitlines()[1:]
    assert [line.split()[0] for line in lines] == NAMES
    here = {line.split()[0]: line for line in lines}
    assert here["travel"].rstrip().endswith("generated when needed")
    assert here["multi30k"].rstrip().endswith(str(tmp_path / "multi30k"))
    assert here["tatoeba"].rstrip().endswith("not yet")


def test_the_list_for_a_machine(monkeypatch, tmp_path):
    monkeypatch.delenv("REGARD_DATA", raising=False)
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path))
    rows = {row["name"]: row for row in json.loads(run("--json").output)}
    assert [*rows] == NAMES
    assert rows["multi30k"]["here"] is None


@pytest.mark.parametrize("name", ["language/ptb.tar.xz", "language/ptb/ptb.train.txt.gz"])
def test_a_text_is_here_as_an_archive_or_in_files(monkeypatch, tmp_path, name):
    monkeypatch.setenv("REGARD_DATA", str(tmp_path))
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    (tmp_path / name).parent.mkdir(parents=True)
    (tmp_path / name).write_bytes(b"")
    [row] = [row for row in json.loads(run("--json").output) if row["name"] == "ptb"]
    assert row["here"] == str(tmp_path / name)


def test_pairs_are_printed():
    lines = run("show", "reverse", "--split", "train", "-n", "3").stdout.splitlines()
    assert len(lines) == 3
    for line in lines:
        source, target = line.split("\t")
        assert source[::-1] == target


def test_captions_are_printed_beside_the_names_of_pictures():
    lines = run("show", "squares", "--split", "valid", "-n", "2").stdout.splitlines()
    names, captions = zip(*(line.split("\t") for line in lines), strict=True)
    assert names == ("valid-0", "valid-0")
    assert " left of a " in captions[0]
    with pytest.raises(SettingsError, match="squares has captioned pictures: leave out --gold"):
        run("show", "squares", "--gold")


@pytest.mark.skipif(
    not (data_folder() and (data_folder() / "sentences").is_dir()),
    reason="needs sentences in $REGARD_DATA",
)
def test_labels_are_printed_before_their_texts():
    lines = run("show", "trec6", "-n", "2").stdout.splitlines()
    assert lines == [
        "NUM\tHow far is it from Denver to Aspen ?",
        "LOC\tWhat county is Modesto , California in ?",
    ]
    with pytest.raises(SettingsError, match="sst2 has labelled texts: leave out --gold and --set"):
        run("show", "sst2", "--gold")


@pytest.mark.skipif(
    not (data_folder() and (data_folder() / "pictures" / "mnist.tar.xz").is_file()),
    reason="needs pictures in $REGARD_DATA",
)
def test_pictures_are_printed_by_number_and_label():
    assert run("show", "mnist", "-n", "2").stdout == "0\t7\n1\t2\n"
    with pytest.raises(SettingsError, match="mnist has labelled pictures: leave out --gold"):
        run("show", "mnist", "--gold")


def test_what_is_printed_is_the_split_asked_for():
    shown = [run("show", "copy", *FEW, "--split", split).stdout for split in ("test", "valid")]
    assert shown[0] == run("show", "copy", *FEW).stdout
    assert shown[0] != shown[1]


def test_all_pairs_of_a_smaller_corpus():
    shown = run("show", "copy", "-n", "0", *FEW, "--set", "corpus.generated.test=17")
    assert len(shown.stdout.splitlines()) == 17
    assert "copy" in shown.stderr  # where it comes from, beside the answer


def test_gold_alignments():
    [line] = run("show", "travel", "-n", "1", "--gold", *FEW).stdout.splitlines()
    source, target, gold = line.split("\t")
    links = [link.replace("p", "-").split("-") for link in gold.split()]
    assert links
    assert all(int(s) < len(source.split()) for s, _ in links)
    assert all(int(t) < len(target.split()) for _, t in links)


def test_json():
    [line] = run("show", "copy", "-n", "1", "--json", *FEW).stdout.splitlines()
    said = json.loads(line)
    assert said.keys() == {"source", "target"}
    assert said["source"] == said["target"]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("show", "nope"), "nope: no corpus of that name; `regard corpora` lists them"),
        (("show", "wikitext2"), "did you mean 'wikitext-2'"),
        (("show", "copy", "--split", "tset"), "--split tset: there are train, valid, test"),
        (("show", "dates", "--gold"), "dates has no gold alignments: leave out --gold"),
        (("show", "copy", "--set", "corpus.tatoeba.pair=eng-fra"), "no effect"),
    ],
)
def test_mistakes(args, message):
    with pytest.raises(SettingsError, match=message):
        run(*args)


@pytest.mark.skipif(
    data_folder() is None or not (data_folder() / "language/tinyshakespeare.tar.xz").is_file(),
    reason="$REGARD_DATA holds no language/tinyshakespeare.tar.xz",
)
def test_lines_of_a_running_text_are_printed(monkeypatch, tmp_path):
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path))
    shown = run("show", "tinyshakespeare", "--split", "train", "-n", "3").stdout
    assert shown == "First Citizen:\nBefore we proceed any further, hear me speak.\n\n"
    with pytest.raises(SettingsError, match="tinyshakespeare has no split test; it has train, va"):
        run("show", "tinyshakespeare")
    with pytest.raises(SettingsError, match="is a running text: leave out --gold"):
        run("show", "ptb", "--gold")
