import csv
import gzip
import io
import sys
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from regard.corpora.corpus import Pair, ReadReport
from regard.corpora.readers import pair_files
from regard.corpora.readers.pair_files import (
    FilesSettings,
    header_places,
    read_bytes,
    read_lines,
    read_pairs,
)
from regard.errors import CorpusError

EN_DE = ("en", "de")


def read(corpus_languages=EN_DE, **settings):
    paths = {key: str(value) for key, value in settings.items() if isinstance(value, Path)}
    return list(read_pairs(FilesSettings(**(settings | paths)), corpus_languages))


def message(corpus_languages=EN_DE, **settings):
    with pytest.raises(CorpusError) as caught:
        read(corpus_languages, **settings)
    return str(caught.value)


@pytest.fixture
def put(tmp_path):
    def write(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


@pytest.fixture
def stdin(monkeypatch):
    def feed(content, stream=io.BytesIO):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(stream(content)))

    return feed


class TestText:
    def test_lines_go_together(self, put):
        source, target = put("a.en", "one\ntwo\n"), put("a.de", "eins\nzwei")
        assert read(source=source, target=target) == [("one", "eins"), ("two", "zwei")]

    def test_only_newline_ends_a_line(self, put):
        odd = "a\u2028b\u2029c\x85d\x0be\x0cf\x1cg\rh"
        assert list(read_lines(put("a", f"{odd}\nnext\r\nlast"))) == [odd, "next", "last"]

    def test_blank_lines_are_lines(self, put):
        assert list(read_lines(put("a", "\n\na\n\n"))) == ["", "", "a", ""]

    def test_byte_order_mark_is_no_text(self, put):
        assert list(read_lines(put("a", "\ufeffone\n\ufefftwo"))) == ["one", "\ufefftwo"]

    def test_an_empty_file_has_no_lines(self, put):
        assert list(read_lines(put("a", ""))) == []

    @pytest.mark.parametrize("name", ["a.gz", "a.txt"])
    def test_gzip_is_known_by_its_bytes(self, put, name):
        members = gzip.compress(b"one\n") + gzip.compress(b"two\n")
        assert list(read_lines(put(name, members))) == ["one", "two"]

    def test_a_plain_file_may_be_called_gz(self, put):
        assert list(read_lines(put("a.gz", "one\n"))) == ["one"]

    def test_standard_input(self, put, stdin):
        stdin(b"one\ntwo\n")
        assert read(source="-", target=put("a.de", "1\n2\n")) == [("one", "1"), ("two", "2")]

    def test_gzipped_standard_input(self, stdin):
        stdin(gzip.compress(b"one\ntwo\n"))
        assert list(read_lines("-")) == ["one", "two"]
        assert not sys.stdin.closed

    @pytest.mark.parametrize(("source", "target", "counts"), [(5, 2, "5 2"), (2, 5, "2 5")])
    def test_unequal_counts(self, put, source, target, counts):
        source, target = put("a.en", "x\n" * source), put("a.de", "x\n" * target)
        first, second = counts.split()
        assert message(source=source, target=target) == (
            f"{source} has {first} lines and {target} has {second}: parallel files must have "
            "the same number; look for a line lost or split in two"
        )

    def test_both_empty(self, put):
        source, target = put("a.en", ""), put("a.de", "")
        assert message(source=source, target=target) == f"{source} and {target} are empty"


def test_all_bytes_of_a_file(put, stdin):
    assert read_bytes(put("a", b"\xff\r\n\0")) == b"\xff\r\n\0"
    assert read_bytes(put("a.gz", gzip.compress(b"one\r\n"))) == b"one\r\n"
    stdin(b"two")
    assert read_bytes("-") == b"two"


class TestBadFiles:
    def error(self, path):
        with pytest.raises(CorpusError) as caught:
            list(read_lines(path))
        return str(caught.value)

    def test_missing(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        assert self.error("no.txt") == f"no.txt: no such file (looked in {tmp_path})"

    def test_folder(self, tmp_path):
        assert self.error(tmp_path) == f"{tmp_path}: a folder, where a file was expected"

    def test_permission(self, put, monkeypatch):
        def refuse(*_):
            raise PermissionError(13, "Permission denied")

        path = put("a", "text")
        monkeypatch.setattr(pair_files, "open", refuse, raising=False)
        assert self.error(path) == f"{path}: no permission to read it"

    def test_impossible_name(self):
        assert self.error("a\0b") == "a\0b: cannot be opened: embedded null byte"

    def test_name_too_long(self):
        assert "cannot be opened: [Errno 36] File name too long" in self.error("a" * 300)

    def test_not_utf8(self, put):
        path = put("a", "gut\nschön\n".encode("latin-1"))
        assert self.error(path) == (
            f"{path}: line 2: not UTF-8: byte 4 of the line is 0xf6; convert it, from Latin-1 for "
            "example: iconv -f LATIN1 -t UTF-8"
        )

    def test_not_utf8_replaced(self, put):
        path = put("a", b"gut\nsch\xf6n \xff\xfe\n\n")
        assert list(read_lines(path, replace=True)) == ["gut", "sch\ufffdn \ufffd\ufffd", ""]

    def test_utf16(self, put):
        path = put("a", "gut\n".encode("utf-16"))
        assert self.error(path) == (
            f"{path}: is UTF-16, and text must be UTF-8; convert it: iconv -f UTF-16 -t UTF-8"
        )

    def test_endless_line(self, put, monkeypatch):
        monkeypatch.setenv("REGARD_LIMITS", "line=1MiB")
        path = put("a", gzip.compress(b"short\n" + b"x" * ((1 << 20) + 1)))
        assert self.error(path) == (
            f"{path}: line 2: larger than 1MiB, the limit of a line, a row or a unit of a file; to "
            "read more: REGARD_LIMITS=line=4MiB; is this a text file with one sentence a line?"
        )

    @pytest.mark.parametrize("keep", [0.1, 0.5, 0.99])
    def test_gzip_cut_short(self, put, keep):
        whole = gzip.compress("".join(f"line {n} of many\n" for n in range(50_000)).encode())
        path = put("a.gz", whole[: int(keep * len(whole))])
        lines = []
        with pytest.raises(CorpusError) as caught:
            lines.extend(read_lines(path))
        count = len(lines)
        assert str(caught.value) == (
            f"{path}: line {count + 1}: the gzip data ends too early: the file is truncated; copy "
            "or download it again"
        )
        assert count == pytest.approx(keep * 50_000, rel=0.2)

    def test_gzip_damaged(self, put):
        whole = bytearray(gzip.compress(b"".join(b"%d\n" % n for n in range(9999))))
        whole[len(whole) // 2] ^= 0xFF
        assert "the gzip data is damaged (" in self.error(put("a.gz", bytes(whole)))

    def test_gzip_checksum(self, put):
        whole = bytearray(gzip.compress(b"one\n"))
        whole[-8] ^= 0xFF
        path = put("a.gz", bytes(whole))
        assert self.error(path).startswith(f"{path}: line 2: the gzip data is damaged (CRC check")

    def test_disk_failure(self, stdin):
        class Failing(io.BytesIO):
            def read1(self, size=-1):
                data = super().read1(5)
                if not data:
                    raise OSError(5, "Input/output error")
                return data

        stdin(b"one\ntwo\nthree", Failing)
        assert self.error("-") == (
            "standard input: cannot be read after byte 13: Input/output error"
        )


class TestTables:
    def test_tsv_knows_no_quotes(self, put):
        path = put("a.tsv", 'a "b\t"c\td\n')
        assert read(data=path) == [('a "b', '"c')]

    def test_csv_cells_may_span_lines(self, put):
        path = put("a.csv", '"one, ""two""\r\nthree",four\r\nfive,six\r\n')
        assert read(data=path) == [('one, "two" three', "four"), ("five", "six")]

    @pytest.mark.parametrize("name", ["a.tsv.gz", "A.TSV.GZ", "a.b.tsv"])
    def test_format_by_name(self, put, name):
        assert read(data=put(name, "a\tb\n")) == [("a", "b")]

    def test_format_as_given(self, put):
        assert read(data=put("a.txt", "a,b\n"), format="csv") == [("a", "b")]

    def test_columns_by_number(self, put):
        assert read(data=put("a.tsv", "id\ta\tb\n"), columns=(2, 1)) == [("b", "a")]

    @pytest.mark.parametrize("columns", [("de", "en"), ("de", 1)])
    def test_columns_by_name(self, put, columns):
        path = put("a.csv", "\ufeffid,en,de\n7,a,b\n")
        assert read(data=path, columns=columns) == [("b", "a")]

    def test_header_is_skipped(self, put):
        assert read(data=put("a.csv", "en,de\na,b\n"), header=True) == [("a", "b")]

    @pytest.mark.parametrize("name", ["a.tsv", "a.csv"])
    def test_blank_line_is_an_empty_pair(self, put, name):
        gap = {"a.tsv": "\t", "a.csv": ","}[name]
        assert read(data=put(name, f"a{gap}b\n\nc{gap}d\n"))[1] == Pair("", "")

    def test_standard_input_needs_a_format(self, stdin):
        stdin(b"a\tb\n")
        assert read(data="-", format="tsv") == [("a", "b")]
        assert message(data="-", format="tsv") == (
            "standard input: holds no pairs: it is empty; it can be read only once"
        )

    @pytest.mark.parametrize("content", ["", "en,de\n"])
    def test_no_pairs(self, put, content):
        path = put("a.csv", content)
        assert message(data=path, header=True) == f"{path}: holds no pairs: it is empty"

    def test_missing_column(self, put):
        path = put("a.tsv", "a\tb\tc\nlonely and quite long so that it is cut off\n")
        assert message(data=path, columns=(0, 2)) == (
            f"{path}: line 2: column 2 was asked for, counted from 0, and 1 found; the line "
            "begins 'lonely and quite long so that it is cut '"
        )

    def test_missing_column_after_a_cell_of_two_lines(self, put):
        path = put("a.csv", '"a\nb",c\nd\n')
        assert message(data=path).startswith(f"{path}: line 3: column 1 was asked for")

    @pytest.mark.parametrize(
        ("header", "found"),
        [
            ("en,fr\n", "no columns are named 'de'; the header has 'en', 'fr'"),
            ("de,en,de\n", "2 columns are named 'de'; the header has 'de', 'en', 'de'"),
            ("", "no columns are named 'en'; the header has nothing"),
        ],
    )
    def test_wrong_column_name(self, put, header, found):
        path = put("a.csv", header)
        assert message(data=path, columns=("en", "de")) == f"{path}: line 1: {found}"

    @pytest.mark.parametrize("bad", ['"a,b\nc,d\n', '"a"b,c\n', f"a,{'b' * 140_000}\n"])
    def test_not_csv(self, put, bad):
        path = put("a.csv", f"x,y\n{bad}")
        found = message(data=path)
        assert found.startswith(f"{path}: line 2: not CSV: ")
        assert found.endswith("is a quote not closed, or not doubled inside a quoted cell?")

    def test_unknown_extension(self, put):
        path = put("a.xlsx.gz", "")
        assert message(data=path) == (
            f"{path}: its name ends in none of .tsv, .csv, .tmx and .jsonl, with or without .gz; "
            "rename it, or give its format (tsv, csv, tmx, jsonl), as in --set "
            "corpus.train.format=tsv; plain text is for a language model: regard train text --data "
            "FILE"
        )

    @pytest.mark.parametrize(
        ("first", "pair"),
        [
            ("en,de", ("x", "y")),
            ("Target,Source", ("y", "x")),
            ("id,EN,de-AT", ("y", "z")),
            ("German,English", ("y", "x")),
            ("English,French", ("x", "y")),  # of another language: the order stays
        ],
    )
    def test_a_header_is_known_and_told(self, put, first, pair):
        report = ReadReport()
        path = put("a.csv", f"{first}\nx,y,z\n")
        assert list(read_pairs(FilesSettings(data=str(path)), EN_DE, report)) == [pair]
        [told] = report.messages()
        assert f"line 1 is a header ({', '.join(first.split(','))}), not a pair" in told

    @pytest.mark.parametrize("first", ["en,Hund", "is,so", "Source: de,Target: en"])
    def test_what_may_be_a_pair_is_one(self, put, first):
        assert len(read(data=put("a.csv", f"{first}\nx,y\n"))) == 2

    def test_named_columns_take_the_header(self, put):
        path = put("a.csv", "de,en\nzwei,two\n")
        settings = FilesSettings(data=str(path), columns=("en", "de"))
        assert list(read_pairs(settings, ("en", "de"))) == [("two", "zwei")]

    def test_errors_of_the_file_come_through(self, put):
        path = put("a.csv", b"a,b\n\xff,c\n")
        assert message(data=path).startswith(f"{path}: line 2: not UTF-8")


class TestSkipping:
    """What cannot be read is skipped where that is asked for, and told."""

    def skip(self, told, **settings):
        report = ReadReport()
        paths = {key: str(path) for key, path in settings.items()}
        for _ in range(2):  # read again, nothing is counted twice
            pairs = list(read_pairs(FilesSettings(**paths, skip_bad=True), EN_DE, report))
        assert [one.partition(": ")[2] for one in report.messages()] == told
        return pairs

    def test_lines_that_are_not_utf8(self, put):
        source, target = put("a.en", b"1\n\xff\n3\n4"), put("a.de", b"1\n2\n3\n\xfe")
        told = [f"skipped 1 lines that are not UTF-8, the first at line {line}" for line in (2, 4)]
        assert self.skip(told, source=source, target=target) == [("1", "1"), ("3", "3")]

    def test_rows_with_too_few_columns(self, put):
        told = ["skipped 2 rows with too few columns, the first at line 2"]
        path = put("a.tsv", "a\tb\nc\nd\n\ne\tf\n")
        assert self.skip(told, data=path) == [("a", "b"), ("", ""), ("e", "f")]

    def test_rows_that_are_not_csv(self, put):
        path = put("a.csv", b'a,b\n"c"d,e\nf,g\n\xff,h\ni,j\n')
        told = [
            "skipped 1 rows that are not CSV, the first at line 2",
            "skipped 1 lines that are not UTF-8, the first at line 4",
        ]
        assert self.skip(told, data=path) == [("a", "b"), ("f", "g"), ("i", "j")]

    def test_files_of_unlike_length_are_an_error_all_the_same(self, put):
        with pytest.raises(CorpusError, match="has 1 lines and"):
            self.skip([], source=put("a", "1"), target=put("b", "1\n2"))


class TestMemories:
    def test_line_breaks_become_spaces(self, put):
        path = put("a.tmx.gz", gzip.compress(tmx("one\ntwo", "eins&#13;\nzwei").encode()))
        assert read(data=path) == [("one two", "eins zwei")]

    def test_languages_of_the_settings_come_first(self, put):
        path = put("a.tmx", tmx("one", "eins"))
        assert read(("und", "und"), data=path, languages=("de", "en")) == [("eins", "one")]

    def test_empty(self, put):
        path = put("a.tmx", "")
        assert message(data=path) == f"{path}: holds no pairs: it is empty"

    def test_errors_name_the_file(self, put):
        path = put("a.tmx", tmx("one", "eins"))
        assert message(("en", "fr"), data=path).startswith(f"{path}: none of its 1 units has")

    def test_gzip_cut_short(self, put):
        path = put("a.tmx.gz", gzip.compress(tmx("one", "eins").encode())[:-30])
        assert "the gzip data ends too early" in message(data=path)


def tmx(en, de):
    return (
        f'<tmx><body><tu><tuv xml:lang="en"><seg>{en}</seg></tuv>'
        f'<tuv xml:lang="de"><seg>{de}</seg></tuv></tu></body></tmx>'
    )


class TestSettings:
    @pytest.mark.parametrize(
        ("settings", "complaint"),
        [
            ({}, "give data, or both source and target"),
            ({"source": "a"}, "give data, or both source and target"),
            ({"source": "a", "data": "b.tsv"}, "give either data, or source and target, not both"),
            (
                {"source": "-", "target": "-"},
                "source and target cannot both be the standard input",
            ),
            ({"data": "-"}, "data is the standard input: give format (tsv, csv, tmx, jsonl)"),
            (
                {"source": "a", "target": "b", "format": "csv", "header": True},
                "format, header would have no effect: the pairs are read from two text files",
            ),
            (
                {"data": "a.tmx", "columns": (1, 0)},
                "columns would have no effect: the pairs are read from tmx",
            ),
            (
                {"data": "a.tsv", "languages": ("en", "de")},
                "languages would have no effect: the pairs are read from tsv",
            ),
        ],
    )
    def test_what_does_not_fit(self, settings, complaint):
        with pytest.raises(ValidationError) as caught:
            FilesSettings(**settings)
        assert complaint in str(caught.value)

    def test_negative_columns(self):
        with pytest.raises(ValidationError, match="greater than or equal to 0"):
            FilesSettings(data="a.tsv", columns=(-1, 0))

    def test_saved_settings_can_be_read_again(self):
        settings = FilesSettings(source="a", target="b")
        assert FilesSettings(**settings.model_dump()) == settings


SENTENCES = st.text(
    st.characters(
        exclude_categories=["Cs", "Cc"],  # many control characters are taken for a binary file
        include_characters="\t\r\n\v\f\x85",
        exclude_characters="\ufeff",
    )
)
PLAIN = SENTENCES.map(lambda text: text.translate(dict.fromkeys(map(ord, "\t\r\n"))))


@given(st.lists(st.tuples(PLAIN, PLAIN), min_size=1))
def test_tsv_comes_back(tmp_path_factory, pairs):
    path = tmp_path_factory.mktemp("tsv") / "a.tsv"
    path.write_bytes("".join(f"{left}\t{right}\n" for left, right in pairs).encode())
    assert read(data=path) == pairs


@given(st.lists(st.tuples(SENTENCES, SENTENCES), min_size=1))
def test_csv_comes_back(tmp_path_factory, pairs):
    path = tmp_path_factory.mktemp("csv") / "a.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(pairs)
    spaced = [
        tuple(x.replace("\r\n", " ").replace("\r", " ").replace("\n", " ") for x in pair)
        for pair in pairs
    ]
    assert read(data=path) == spaced


@pytest.mark.parametrize("name", ["a.tsv.gz", "a.csv"])
def test_a_stream_is_never_held(put, name):
    def peak(rows):
        row = "words and words,words and words\n"
        plain = (row.replace(",", "\t") if "tsv" in name else row).encode() * rows
        path = put(name, gzip.compress(plain) if name.endswith(".gz") else plain)
        pairs = read_pairs(FilesSettings(data=str(path)), EN_DE)
        tracemalloc.start()
        count = sum(1 for _ in pairs)
        highest = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert count == rows
        return highest

    assert peak(40_000) < 2 * peak(10_000)


def test_column_names_tell_source_and_target():
    assert header_places(["id", "Target", "Source"], ("und", "und")) == [2, 1]


def test_names_of_other_languages_do_not_tell_the_order():
    assert header_places(["English", "French"], ("und", "und")) == []


def test_one_column_name_makes_no_header():
    assert header_places(["Source", "Quelle"], ("en", "de")) is None
