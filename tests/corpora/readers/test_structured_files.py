import pytest

from regard.corpora.readers.pair_files import read_lines
from regard.errors import CorpusError

XLIFF = '<?xml version="1.0"?>\n<xliff><source>Elle part.</source></xliff>'


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("a.fr", XLIFF, "XML.*save its text"),
        ("a.fr", "\ufeff\n <tmx version='1.4'>", "XML"),
        ("a.fr", '# French\n\nmsgid ""\nmsgstr ""\n', "PO"),
        ("a.fr", '[\n  {"text": "Elle part."}]', "JSON"),
        ("a.fr", '["Elle part.", "Il part."]', "JSON"),
        ("a.fr", " {\\rtf1 Elle part.}", "RTF"),
        ("a.fr", "% a\n\\documentclass{article}", "LaTeX"),
        ("a.fr", '<?xml version="1.0"?>\n<!DOCTYPE html>', "HTML.*--format html"),
        ("a.fr", "1\r\n00:00:01,000 --> 00:00:02,000\r\nElle part.", "SubRip.*--format srt"),
        ("a.fr", "WEBVTT\n\n", "WebVTT.*--format vtt"),
        ("a.JSON.gz", "Elle part.", "JSON"),
        ("a.md", "Elle part.", "Markdown.*--format markdown"),
        ("a.yml", "a: Elle part.", "YAML"),
    ],
)
def test_other_formats_are_known_by_their_beginning_or_name(tmp_path, name, text, found):
    (tmp_path / name).write_text(text)
    message = rf"{name}: is {found}.*, or give --any if its lines are meant$"
    with pytest.raises(CorpusError, match=message):
        list(read_lines(tmp_path / name, override="--any"))
    assert list(read_lines(tmp_path / name))


@pytest.mark.parametrize(
    "text",
    [
        "{name} part.",
        '{"Elle part", dit-il}',
        '["Elle part", dit-il]',
        "[1] Elle part.",
        "# Elle part.",
        "<b>Elle</b> part.",
        " " * 100_000,
        "#\n" * 100_000,
        "",
    ],
)
def test_lines_that_look_like_other_formats_are_lines(tmp_path, text):
    (tmp_path / "a.txt").write_text(text)
    assert list(read_lines(tmp_path / "a.txt", override="--any")) == text.splitlines()
