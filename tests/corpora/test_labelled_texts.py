import gzip
import os
from pathlib import Path

import pytest

from regard.corpora.corpus import ReadReport
from regard.corpora.labelled_texts import (
    LABELLED_TEXTS,
    LabelledText,
    LabelledTextSettings,
    read_labelled_texts,
)
from regard.errors import BadLineError, CorpusError

TABLE = "NUM\tHow far ?\nHUM\tWho was it ?\n"
BOTH = [LabelledText("NUM", ("How far ?",)), LabelledText("HUM", ("Who was it ?",))]


def read(tmp_path, content, name="train.tsv", **settings):
    """The training examples of a file, and what was said about it."""
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    valid = tmp_path / f"valid{''.join(path.suffixes)}"
    valid.write_bytes(path.read_bytes())
    report = ReadReport()
    given = LabelledTextSettings(train=str(path), valid=str(valid), **settings)
    return read_labelled_texts(given, report)["train"], report.messages()


@pytest.mark.parametrize(
    ("name", "content", "settings"),
    [
        ("train.tsv", TABLE, {}),
        ("train.tsv.gz", gzip.compress(TABLE.encode(), mtime=0), {}),
        ("train.tsv", f"\n{TABLE}\n\n", {}),
        ("train.csv", 'NUM,How far ?\nHUM,"Who\nwas it ?"\n', {}),
        ("train.csv", "kind,q\nNUM,How far ?\nHUM,Who was it ?\n", {"label": "kind", "text": "q"}),
        ("train.tsv", "x\tHow far ?\tNUM\nx\tWho was it ?\tHUM\n", {"label": 2}),
        (
            "train.jsonl",
            '{"label": "NUM", "text": "How far ?"}\n{"label": "HUM", "text": "Who was it ?"}\n',
            {},
        ),
    ],
)
def test_tables_and_objects_are_read_alike(tmp_path, name, content, settings):
    assert read(tmp_path, content, name, **settings) == (BOTH, [])


def test_a_pair_has_two_texts(tmp_path):
    found, _ = read(tmp_path, "yes\ta\tb\nno\tc\td\n", text=(1, 2))
    assert found[0] == LabelledText("yes", ("a", "b"))


@pytest.mark.parametrize(
    ("content", "line", "settings"),
    [
        ("label,text\nNUM,How far ?\nHUM,0 this,Who was it ?\n", 3, {}),
        ("kind,q\nNUM,How far ?\nHUM,0 this,Who ?\n", 3, {"label": "kind", "text": "q"}),
        ("NUM,How far ?,,\nHUM,Who was it ?\nHUM,a,b,c,d\n", 3, {}),
    ],
)
def test_a_row_with_more_columns_than_the_first_is_an_error_or_skipped(
    tmp_path, content, line, settings
):
    with pytest.raises(BadLineError, match=rf"line {line}: \d columns, and the first row has \d"):
        read(tmp_path, content, "train.csv", **settings)
    found, notes = read(tmp_path, content, "train.csv", skip_bad=True, **settings)
    assert found[0] == BOTH[0]
    said = f"skipped 1 rows with too many columns, the first at line {line}"
    assert any(said in note for note in notes)


def test_a_header_is_known_as_one(tmp_path):
    found, [note, _] = read(tmp_path, f"label\tsentence\n{TABLE}")
    assert found == BOTH
    assert note.endswith("train.tsv: line 1 is a header (label, sentence)")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("NUM\tHow far ?\nHUM\t \n", "line 2: no text after the label 'HUM'"),
        ("\tHow far ?\n", "line 1: no label before the text 'How far"),
        ("NUM\n", "line 1: column 1 was asked for, counted from 0, and 1 found"),
    ],
)
def test_a_row_without_label_or_text_is_an_error_or_skipped(tmp_path, content, said):
    with pytest.raises(BadLineError, match=said):
        read(tmp_path, content)
    found, notes = read(tmp_path, TABLE + content, skip_bad=True)
    assert found[:2] == BOTH
    assert "skipped 1 rows without a label and a text, the first at line" in notes[0]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('["NUM"]', "expected a JSON object"),
        ('{"label": "NUM", "q": "How"}', "no text called 'text'; its keys: 'label', 'q'"),
        ('{"label": 1.0, "text": "How"}', "'label' is 1.0: expected a text, or a whole number"),
        ('{"label": "a", "text": ["b"]}', r"'text' is \[\"b\"\]: expected a text"),
        ("NUM", "line 1: "),
    ],
)
def test_a_line_that_is_no_object_is_an_error(tmp_path, line, said):
    with pytest.raises(BadLineError, match=said):
        read(tmp_path, line, "train.jsonl")


def test_objects_that_are_not_utf8_are_skipped(tmp_path):
    content = b'{"label": "NUM", "text": "How far ?"}\n{"label": "HUM", "text": "\xe4"}\n'
    with pytest.raises(BadLineError, match=r"train\.jsonl: line 2: not UTF-8"):
        read(tmp_path, content, "train.jsonl")
    found, notes = read(tmp_path, content, "train.jsonl", skip_bad=True)
    assert found == BOTH[:1]
    assert "skipped 1 lines that are not UTF-8, the first at line 2" in notes[0]


def test_files_without_examples_and_of_unknown_kind_are_refused(tmp_path):
    with pytest.raises(CorpusError, match="holds no examples"):
        read(tmp_path, "\n\n")
    with pytest.raises(CorpusError, match=r"ends in none of \.tsv, \.csv and \.jsonl"):
        read(tmp_path, TABLE, "train.txt")


def test_valid_and_test_are_held_out_of_train(tmp_path):
    path = tmp_path / "train.tsv"
    path.write_text("".join(f"{'ab'[row % 2]}\ttext {row}\n" for row in range(40)))
    settings = LabelledTextSettings(train=str(path), valid_share=0.2, test_share=0.3)
    splits = read_labelled_texts(settings, ReadReport())
    assert {name: len(rows) for name, rows in splits.items()} == {
        "train": 20,
        "valid": 8,
        "test": 12,
    }
    assert len({row for rows in splits.values() for row in rows}) == 40


def test_too_few_to_hold_out_any_are_refused(tmp_path):
    path = tmp_path / "train.tsv"
    path.write_text(TABLE)
    with pytest.raises(
        CorpusError, match=r"2 labels: too few to hold out 10% for valid: .* label, such as"
    ):
        read_labelled_texts(LabelledTextSettings(train=str(path)), ReadReport())


def test_texts_that_are_not_distinct_are_counted(tmp_path):
    path = tmp_path / "train.tsv"
    path.write_text(TABLE * 20)
    with pytest.raises(CorpusError, match="40 examples, only 2 of them distinct, with 2 labels"):
        read_labelled_texts(LabelledTextSettings(train=str(path)), ReadReport())


DATA = Path(os.environ.get("REGARD_DATA", "none"))


@pytest.mark.skipif(not (DATA / "sentences").is_dir(), reason="needs sentences in $REGARD_DATA")
@pytest.mark.parametrize(
    ("name", "counts", "labels"),
    [
        ("trec6", [4907, 545, 500], {"ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM"}),
        ("sst2", [6920, 872, 1821], {"negative", "positive"}),
    ],
)
def test_known_corpora_have_their_examples(name, counts, labels):
    splits = read_labelled_texts(LabelledTextSettings(name=name), ReadReport())
    assert name in LABELLED_TEXTS
    assert [len(splits[split]) for split in ("train", "valid", "test")] == counts
    assert {one.label for one in splits["test"]} == labels
