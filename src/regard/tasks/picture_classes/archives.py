"""MNIST and CIFAR-10, read from their own binary files."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from regard.corpora.corpus import SplitName
from regard.corpora.download import KnownFile, get_file, unzipped
from regard.errors import CorpusError
from regard.images.picture_files import Bytes, Picture

MNIST_UPSTREAM = "https://ossci-datasets.s3.amazonaws.com/mnist"
MNIST_IMAGES, MNIST_LABELS = 0x00000803, 0x00000801  # the first four bytes of idx files
MNIST_DIGESTS = {
    "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
}
CIFAR10_URL = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"
CIFAR10_SHA256 = "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"
CIFAR10_DIGESTS = {
    "data_batch_1": "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
    "data_batch_2": "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
    "data_batch_3": "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
    "data_batch_4": "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
    "data_batch_5": "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
    "test_batch": "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
}
CIFAR10_CLASSES = (
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck",
)  # fmt: skip
CIFAR10_SIDE = 32


class PictureArrays(NamedTuple):
    """Pictures of one size, all in memory, and the label of each."""

    pixels: Bytes  # (N, height, width, 3)
    labels: tuple[str, ...]

    def picture(self, number: int) -> Picture:
        """The picture of this number."""
        return Picture(self.pixels[number])


class PictureArchive(NamedTuple):
    """A corpus that is known by name."""

    about: str
    first: KnownFile  # one of its files
    read: Callable[[], dict[SplitName, PictureArrays]]
    origin: str


def mnist() -> dict[SplitName, PictureArrays]:
    """Handwritten digits, 28 × 28 (LeCun et al. 1998)."""
    names: Mapping[SplitName, str] = {"train": "train", "test": "t10k"}
    return {split: _read_mnist(name) for split, name in names.items()}


def _read_mnist(name: str) -> PictureArrays:
    images, labels = (
        unzipped(get_file(_mnist_file(f"{name}-{kind}")))
        for kind in ("images-idx3-ubyte", "labels-idx1-ubyte")
    )
    grey = parse_idx(images, MNIST_IMAGES, name)  # (N, 28, 28)
    numbers = parse_idx(labels, MNIST_LABELS, name)  # (N,)
    pixels = np.broadcast_to(grey[..., None], (*grey.shape, 3))
    return PictureArrays(pixels, tuple(map(str, numbers.tolist())))


def _mnist_file(name: str) -> KnownFile:
    return KnownFile(
        f"pictures/mnist/{name}.gz",
        MNIST_DIGESTS[name],
        url=f"{MNIST_UPSTREAM}/{name}.gz",
        archive="pictures/mnist.tar.xz",
        member=f"mnist/{name}.gz",
    )


def parse_idx(content: bytes, magic: int, name: str) -> Bytes:
    """The array in an idx file: a magic number, the sizes of the axes, and the bytes row by row."""
    axes = magic & 0xFF
    header = np.frombuffer(content, ">u4", count=min(1 + axes, len(content) // 4))
    if len(header) <= axes or header[0] != magic:
        raise CorpusError(f"{name}: not an idx file of {axes} axes; it begins {content[:4]!r}")
    shape = tuple(map(int, header[1:]))
    values = np.frombuffer(content, np.uint8, offset=header.nbytes)
    if len(values) != np.prod(shape):
        raise CorpusError(f"{name}: expected bytes of shape {shape}, found {len(values):,} in all")
    return values.reshape(shape)


def cifar10() -> dict[SplitName, PictureArrays]:
    """Small photographs of ten kinds, 32 × 32 (Krizhevsky 2009)."""
    parts: Mapping[SplitName, list[str]] = {
        "train": [name for name in CIFAR10_DIGESTS if name.startswith("data")],
        "test": ["test_batch"],
    }
    return {
        split: parse_cifar10(b"".join(unzipped(get_file(_cifar10_file(name))) for name in names))
        for split, names in parts.items()
    }


def _cifar10_file(name: str) -> KnownFile:
    return KnownFile(
        f"pictures/cifar-10-batches-bin/{name}.bin.gz",
        CIFAR10_DIGESTS[name],
        archive="pictures/cifar-10-binary.tar.gz",
        member=f"cifar-10-batches-bin/{name}.bin",
        archive_url=CIFAR10_URL,
        archive_sha256=CIFAR10_SHA256,
    )


def parse_cifar10(content: bytes) -> PictureArrays:
    """The pictures of a binary file: for each, a label byte, then red, green and blue planes."""
    side = CIFAR10_SIDE
    rows = np.frombuffer(content, np.uint8).reshape(-1, 1 + 3 * side * side)
    planes = rows[:, 1:].reshape(-1, 3, side, side)
    labels = tuple(CIFAR10_CLASSES[number] for number in rows[:, 0].tolist())
    return PictureArrays(np.ascontiguousarray(planes.transpose(0, 2, 3, 1)), labels)


PICTURE_ARCHIVES: Mapping[str, PictureArchive] = {
    "mnist": PictureArchive(
        "handwritten digits, 28 × 28; 60,000 to train on",
        _mnist_file("train-images-idx3-ubyte"),
        mnist,
        "MNIST (LeCun, Bottou, Bengio and Haffner 1998)",
    ),
    "cifar10": PictureArchive(
        "small photographs of ten kinds of things and animals, 32 × 32; 50,000 to train on",
        _cifar10_file("data_batch_1"),
        cifar10,
        "CIFAR-10 (Krizhevsky 2009), https://www.cs.toronto.edu/~kriz/cifar.html",
    ),
}
"""Every corpus of labelled pictures that is known by name."""
