import io
import json
import tarfile

import numpy as np
import pytest
from PIL import Image

from regard.corpora.corpus import ReadReport
from regard.errors import CorpusError, PictureError
from regard.tasks.captions.caption_files import (
    CaptionFilesSettings,
    read_caption_files,
    read_captions,
)
from regard.tasks.captions.flickr8k import read_archives


@pytest.fixture
def photos(tmp_path):
    for number, name in enumerate(("a.png", "b.webp", "c.png")):
        Image.new("RGB", (40, 40), (number, 0, 0)).save(tmp_path / name, lossless=True)
    return tmp_path


def read(folder, content, name="captions.tsv"):
    (folder / name).write_text(content, encoding="utf-8")
    settings = CaptionFilesSettings(pictures=str(folder), captions=str(folder / name))
    return read_caption_files(settings)


def test_captions_of_a_picture_are_gathered_and_its_ending_may_be_another(photos):
    found = read(photos, "b.jpg#0\tA dog .\na.png\tone cat\n\nb.jpg#1\t a brown dog\n")
    assert [(one.name, one.captions) for one in found] == [
        ("b.jpg", ("A dog .", "a brown dog")),
        ("a.png", ("one cat",)),
    ]
    assert found[0].read().pixels[0, 0, 0] == 1


def test_objects_of_json_have_one_caption_or_several(photos):
    lines = [{"picture": "a.png", "caption": "x"}, {"image": "b.webp", "captions": ["y", "z"]}]
    found = read(photos, "\n".join(map(json.dumps, lines)), "captions.jsonl")
    assert [one.captions for one in found] == [("x",), ("y", "z")]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "c.tsv",
            "a.png a cat\n",
            r"c\.tsv: line 1: expected a name, a tab and a caption, got 'a.png a cat'",
        ),
        ("c.tsv", "a.png\tx\nd.png\ty\n", r"1 of the 2 pictures .* missing, .* is 'd\.png'"),
        ("c.tsv", "\n", "holds no captions"),
        ("c.tsv", "../a.png\tx\n", "must lie inside"),
        ("c.jsonl", "{", "line 1: not JSON: "),
        ("c.jsonl", "[1]", "line 1: expected a JSON object with `picture`"),
        ("c.jsonl", '{"picture": "a.png"}', "line 1: expected a JSON object with `picture`"),
        (
            "c.jsonl",
            '{"picture": "a.png", "captions": ["x", ""]}',
            "line 1: a caption is empty or not a text",
        ),
    ],
)
def test_what_is_wrong_with_captions_is_said(photos, name, content, message):
    with pytest.raises(CorpusError, match=message):
        read(photos, content, name)


def test_a_picture_without_a_name_is_not_there(photos, monkeypatch):
    monkeypatch.chdir(photos)
    (photos / "c.jsonl").write_text('{"picture": "", "caption": "x"}\n')
    with pytest.raises(CorpusError, match=r"1 of the 1 pictures .* are missing"):
        read_caption_files(CaptionFilesSettings(captions="c.jsonl"))


def test_lines_that_are_not_utf8_are_an_error_or_skipped(photos):
    path, report = photos / "c.tsv", ReadReport()
    path.write_bytes(b"a.png\tx\nb.webp\t\xe4\n")
    with pytest.raises(CorpusError, match=r"c\.tsv: line 2: not UTF-8"):
        list(read_captions(str(path), report))
    assert list(read_captions(str(path), report, skip_bad=True)) == [("a.png", ("x",))]
    assert "skipped 1 lines that are not UTF-8, the first at line 2" in report.messages()[0]


def test_a_folder_that_is_not_there_is_an_error(tmp_path):
    (tmp_path / "c.tsv").write_text("a.png\tx\n")
    settings = CaptionFilesSettings(pictures=str(tmp_path / "x"), captions=str(tmp_path / "c.tsv"))
    with pytest.raises(CorpusError, match="no folder of pictures"):
        read_caption_files(settings)


def test_a_picture_that_changes_has_another_mark(photos):
    before = read(photos, "a.png\tx\n")[0]
    (photos / "a.png").write_bytes(b"changed")
    assert read(photos, "a.png\tx\n")[0].mark != before.mark
    with pytest.raises(PictureError, match=r"a\.png: not a picture"):
        before.read()


def test_pictures_are_read_out_of_archives(photos):
    text = b"a.jpg#0\tx\n"
    with tarfile.open(photos / "some.tar", "w") as archive:
        archive.add(photos / "b.webp", "set/images/b.webp")
        info = tarfile.TarInfo("set/list.txt")
        info.size = len(text)
        archive.addfile(info, io.BytesIO(text))
        archive.add(photos / "c.png", "set/images/c.png")
    texts, pictures = read_archives([photos / "some.tar"])
    assert texts == {"list.txt": text.decode()}
    assert [np.unique(pictures[name].read().pixels).tolist() for name in "bc"] == [[0, 1], [0, 2]]
    with pytest.raises(CorpusError, match="cannot be read as an archive"):
        read_archives([photos / "a.png"])


def test_lines_are_read_as_they_stand(photos):
    (photos / "c.tsv").write_text("a#1\tb#2\n")
    assert list(read_captions(str(photos / "c.tsv"), ReadReport())) == [("a", ("b#2",))]
