import gzip
import hashlib
import io
import struct
import tarfile

import numpy as np
import pytest

from regard.corpora.corpus import ReadReport
from regard.corpora.download import data_folder
from regard.errors import CorpusError
from regard.tasks.picture_classes import archives
from regard.tasks.picture_classes.archives import (
    CIFAR10_DIGESTS,
    MNIST_IMAGES,
    MNIST_LABELS,
    parse_cifar10,
    parse_idx,
)
from regard.tasks.picture_classes.data import (
    LabelledPictureSettings,
    read_labelled_pictures,
)


@pytest.fixture(autouse=True)
def _cache(monkeypatch, tmp_path):
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))


def cifar_rows(labels):
    """Pictures whose red is their number, whose green is the row and whose blue the column."""
    rows = []
    for number, label in enumerate(labels):
        red = np.full((32, 32), number)
        green, blue = np.mgrid[:32, :32]
        planes = np.stack([red, green, blue]).astype(np.uint8)
        rows.append(bytes([label]) + planes.tobytes())
    return b"".join(rows)


def test_cifar10_is_a_label_and_three_planes():
    pixels, labels = parse_cifar10(cifar_rows([3, 9]))
    assert labels == ("cat", "truck")
    assert pixels[1, 5, 7].tolist() == [1, 5, 7]


def test_cifar10_comes_out_of_its_archive(monkeypatch, tmp_path):
    labels = [number % 10 for number in range(40)]
    archive, digests = tmp_path / "pictures" / "cifar-10-binary.tar.gz", {}
    archive.parent.mkdir()
    with tarfile.open(archive, "w:gz") as opened:
        for name in CIFAR10_DIGESTS:
            content = cifar_rows(labels)
            digests[name] = hashlib.sha256(content).hexdigest()
            member = tarfile.TarInfo(f"cifar-10-batches-bin/{name}.bin")
            member.size = len(content)
            opened.addfile(member, io.BytesIO(content))
    monkeypatch.setenv("REGARD_DATA", str(tmp_path))
    monkeypatch.setattr(archives, "CIFAR10_DIGESTS", digests)
    settings = LabelledPictureSettings(name="cifar10", valid_share=0.1)
    splits = read_labelled_pictures(settings, ReadReport())
    assert {split: len(some) for split, some in splits.items()} == {
        "train": 180, "valid": 20, "test": 40,
    }  # fmt: skip
    assert splits["test"][13].label == "cat"
    assert splits["test"][13].read().pixels[5, 7].tolist() == [13, 5, 7]
    digests["test_batch"] = "0" * 64
    with pytest.raises(CorpusError, match=r"test_batch\.bin is not the file that is known"):
        read_labelled_pictures(settings, ReadReport())


def test_an_idx_file_has_a_header_and_bytes():
    content = struct.pack(">4I", MNIST_IMAGES, 2, 3, 4) + bytes(range(24))
    assert parse_idx(content, MNIST_IMAGES, "x")[1, 2].tolist() == [20, 21, 22, 23]
    with pytest.raises(CorpusError, match=r"x: not an idx file of 1 axes; it begins"):
        parse_idx(content, MNIST_LABELS, "x")
    with pytest.raises(
        CorpusError, match=r"x: expected bytes of shape \(2, 3, 4\), found 23 in all"
    ):
        parse_idx(content[:-1], MNIST_IMAGES, "x")
    with pytest.raises(CorpusError, match="not an idx file"):
        parse_idx(gzip.compress(b"")[:3], MNIST_IMAGES, "x")


@pytest.mark.skipif(data_folder() is None, reason="needs MNIST in $REGARD_DATA")
def test_mnist_is_what_everybody_knows():
    splits = read_labelled_pictures(LabelledPictureSettings(name="mnist"), ReadReport())
    assert {split: len(some) for split, some in splits.items()} == {
        "train": 58_801, "valid": 1_199, "test": 10_000,
    }  # fmt: skip
    assert [one.label for one in splits["test"][:5]] == ["7", "2", "1", "0", "4"]
    assert splits["test"][0].read().pixels.shape == (28, 28, 3)
