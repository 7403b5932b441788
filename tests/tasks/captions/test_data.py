import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from regard.errors import CorpusError
from regard.tasks.captions.data import CaptionCorpusSettings, build_caption_corpus
from regard.tasks.captions.squares import COLOURS

FLICKR = Path(os.environ.get("REGARD_DATA", "/nowhere"), "pictures", "flickr8k-1.tar")


def build(**settings):
    return build_caption_corpus(CaptionCorpusSettings.model_validate(settings))


def test_squares_are_where_their_captions_say():
    corpus = build(name="squares", generated={"train": 12, "valid": 3, "test": 2})
    assert {name: len(some) for name, some in corpus.splits.items()} == {
        "train": 12,
        "valid": 3,
        "test": 2,
    }
    for picture in corpus.splits["train"]:
        words = picture.captions[0].split()  # a red square left of a blue ring
        left, right = COLOURS[words[1]], COLOURS[words[6]]
        pixels = picture.read().pixels
        halves = pixels[:, :24], pixels[:, 24:]
        for half, colour in zip(halves, (left, right), strict=True):
            assert (half == colour).all(2).sum() > 60
        assert (picture.read().pixels == pixels).all()
        assert picture.captions[1].split()[1] == words[6]


def test_more_training_pictures_change_no_other_split():
    few, many = (build(name="squares", generated={"train": n}) for n in (2, 5))
    assert few.marks("test") == many.marks("test")
    assert few.marks("train") != many.marks("train")
    assert [one.mark for one in few.splits["train"]] == [
        one.mark for one in many.splits["train"][:2]
    ]


@pytest.fixture
def files(tmp_path):
    for number in range(30):
        Image.fromarray(np.full((4, 4, 3), number, np.uint8)).save(tmp_path / f"{number}.png")
    lines = (f"{number}.png\tcaption {number}\n" for number in range(30))
    (tmp_path / "all.tsv").write_text("".join(lines))
    return {"pictures": str(tmp_path), "captions": str(tmp_path / "all.tsv")}


def test_pictures_of_ones_own_are_held_out_whole(files):
    corpus = build(train=files)
    names = {split: {one.name for one in some} for split, some in corpus.splits.items()}
    assert [len(names[split]) for split in ("train", "valid", "test")] == [24, 3, 3]
    assert len(set.union(*names.values())) == 30
    other = build(train=files, split={"seed": 2})
    assert {one.name for one in other.splits["valid"]} != names["valid"]
    assert "test" not in build(train=files, split={"test": 0}).splits


def test_a_handful_of_pictures_is_too_few(files, tmp_path):
    (tmp_path / "all.tsv").write_text("0.png\tx\n1.png\ty\n")
    with pytest.raises(CorpusError, match="2 pictures: too few to hold some out"):
        build(train=files)


@pytest.mark.skipif(not FLICKR.exists(), reason="needs pictures/flickr8k-1.tar in $REGARD_DATA")
def test_flickr8k_has_its_official_splits():
    corpus = build(name="flickr8k")
    assert [len(corpus.splits[name]) for name in ("train", "valid", "test")] == [6000, 1000, 1000]
    pictures = [picture for split in corpus.splits.values() for picture in split]
    assert {len(picture.captions) for picture in pictures} == {5}
    assert len({picture.name for picture in pictures}) == 8000
    first = corpus.splits["test"][0]
    assert first.name == "3385593926_d3e9c21170"
    assert min(first.read().pixels.shape[:2]) == 224
