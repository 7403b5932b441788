"""Picture files of any origin -> red, green and blue bytes, or a clear error."""

import io
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from os.path import isdir
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from regard.atomic_io import read_limited
from regard.errors import PictureError
from regard.manifest import open_plain
from regard.settings import abbreviate

FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM", "AVIF")
"""Pillow's names. Other formats are not read, such as EPS, which would start another program."""
ENDINGS = (".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".ppm", ".avif")
"""Suffixes by which the pictures of a folder are found."""
MAX_PIXELS = 64_000_000
"""Larger pictures are not decoded: a file of a few kilobytes could otherwise fill the memory."""
SMALL_SIDE = 32  # pictures with a side of fewer pixels get a note
ENLARGED = ", enlarged"  # the end of that note
EXIF_ORIENTATION = 0x0112
WHITE = (255, 255, 255)
MODES_WITH_ALPHA = ("LA", "La", "PA", "RGBA", "RGBa")
WIDE_MODES = ("I", "I;16", "I;16B", "I;16L", "I;16N", "F")  # more than eight bits a pixel, grey

RESAMPLING = {
    "nearest": Image.Resampling.NEAREST,
    "lanczos": Image.Resampling.LANCZOS,
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
}

Bytes = NDArray[np.uint8]
Framing = Literal["crop", "stretch"]
"""How a picture becomes a square: by cropping its centre, or by squeezing the whole picture."""
Resampling = Literal["nearest", "lanczos", "bilinear", "bicubic"]
"""The interpolation with which pictures are resized."""


class Picture(NamedTuple):
    """The pixels of a picture, upright, and notes on how they were read."""

    pixels: Bytes  # (height, width, 3) red, green, blue
    notes: tuple[str, ...] = ()


def read_picture(path: str | os.PathLike[str]) -> Picture:
    """The picture in a file; raises a `PictureError` if there is none."""
    if not os.fspath(path).strip():
        raise PictureError("a blank name: give the name of a picture file")
    file = Path(path)
    try:
        content = read_limited(file, "picture")
    except OSError as error:
        raise PictureError(f"{file}: cannot be read: {error.strerror or error}") from None
    return decode_picture(content, str(file))


def read_size(path: Path) -> tuple[int, int] | None:
    """Width and height, from the header of a file; None if it cannot be read."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with open_plain(path) as file, Image.open(file, formats=FORMATS) as image:
                return image.size
        except Exception:  # reported when the picture is read
            return None


def decode_picture(content: bytes, name: str) -> Picture:
    """The picture in the `content` of a file; errors call it `name`."""
    if not content:
        raise PictureError(f"{name}: an empty file, not a picture")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # real errors are raised below
        try:
            with Image.open(io.BytesIO(content), formats=FORMATS) as image:
                check_size(image.width, image.height, name)
                return _decoded(image)
        except PictureError:
            raise
        except Image.DecompressionBombError:
            raise PictureError(
                f"{name}: too large: more than {MAX_PIXELS // 1_000_000} megapixels; make it "
                "smaller first"
            ) from None
        except UnidentifiedImageError:
            raise PictureError(
                f"{name}: not a picture, or of an unsupported format; supported are "
                f"{', '.join(FORMATS)}"
            ) from None
        except MemoryError:
            raise PictureError(f"{name}: too large for the memory of this machine") from None
        except Exception as error:  # each format's decoder raises errors of its own
            raise PictureError(
                f"{name}: damaged or truncated: {abbreviate(str(error) or type(error).__name__)}; "
                "copy or save it again"
            ) from None


def check_size(width: int, height: int, name: str) -> None:
    """Raise a `PictureError` for a picture of too many pixels before it is decoded."""
    if width * height > MAX_PIXELS:
        raise PictureError(
            f"{name}: {width:,} × {height:,} pixels are {width * height / 1e6:.0f} megapixels, but "
            f"at most {MAX_PIXELS // 1_000_000} are allowed; make it smaller first"
        )


def _decoded(image: Image.Image) -> Picture:
    """The first frame of an image whose header was read."""
    notes = []
    if getattr(image, "n_frames", 1) > 1 and image.format != "MPO":
        notes.append(f"only the first of its {getattr(image, 'n_frames', 1)} frames")
    image.load()
    if min(image.size) < SMALL_SIDE:
        notes.append(f"only {image.width} × {image.height} pixels{ENLARGED}")
    upright = _upright(image)
    if upright is not image:
        notes.append("rotated according to its EXIF data")
    if image.mode == "CMYK":
        notes.append("converted from CMYK, without a colour profile")
    if upright.mode in WIDE_MODES:
        grey, note = _to_bytes(np.asarray(upright))
        return Picture(np.repeat(grey[:, :, None], 3, axis=2), (*notes, note))
    if upright.mode in MODES_WITH_ALPHA or "transparency" in upright.info:
        upright = upright.convert("RGBA")
        if np.asarray(upright)[..., 3].min() < 255:
            notes.append("transparent parts shown on white")
        background = Image.new("RGBA", upright.size, (*WHITE, 255))
        upright = Image.alpha_composite(background, upright)
    return Picture(np.array(upright.convert("RGB")), tuple(notes))


def _upright(image: Image.Image) -> Image.Image:
    """The image rotated according to its EXIF data; the same object if it is upright."""
    try:
        if image.getexif().get(EXIF_ORIENTATION, 1) in range(2, 9):
            return ImageOps.exif_transpose(image)
    except Exception:  # damaged EXIF data, which do not matter here, can raise anything
        return image
    return image


def _to_bytes(grey: NDArray[Any]) -> tuple[Bytes, str]:
    """Grey levels of more than eight bits as bytes, and a note on how they were scaled."""
    if grey.dtype.kind == "u" and grey.dtype.itemsize == 2:  # of either byte order
        return (grey / 257).round().astype(np.uint8), "16 bits a pixel, reduced to 8"
    values = np.nan_to_num(grey.astype(np.float64))
    low, high = float(values.min()), float(values.max())
    if low >= 0 and high <= 1 and grey.dtype.kind == "f":
        low, high = 0.0, 1.0
    elif low >= 0 and high <= 65_535 and grey.dtype.kind == "i":
        low, high = 0.0, 65_535.0
    scaled = (values - low) / (high - low or 1.0) * 255
    bits = 8 * grey.dtype.itemsize
    return scaled.round().astype(np.uint8), f"{bits} bits a pixel, scaled from {low:g} to {high:g}"


def crop_square(pixels: Bytes, size: int, resampling: Resampling = "bicubic") -> Bytes:
    """The square in the centre of a picture (height, width, 3), as (size, size, 3).

    It is as wide as the shorter side; resizing the whole picture before cropping gives the same.
    """
    height, width = pixels.shape[:2]
    side = min(height, width)
    top, left = (height - side) // 2, (width - side) // 2
    return stretch_square(pixels[top : top + side, left : left + side], size, resampling)


def stretch_square(pixels: Bytes, size: int, resampling: Resampling = "bicubic") -> Bytes:
    """The whole picture (height, width, 3), squeezed to (size, size, 3)."""
    if pixels.shape[:2] == (size, size):
        return pixels.copy()
    image = Image.fromarray(np.ascontiguousarray(pixels))
    return np.array(image.resize((size, size), RESAMPLING[resampling]))


FRAMINGS: Mapping[Framing, Callable[[Bytes, int, Resampling], Bytes]] = {
    "crop": crop_square,
    "stretch": stretch_square,
}


def find_pictures(names: Iterable[str | os.PathLike[str]]) -> Iterator[str]:
    """The named files, blank names included; for a folder, all pictures in it and below, sorted."""
    for given in names:
        name, path = os.fspath(given), Path(given)
        if name.strip() and isdir(path):  # a Path refuses long names
            found = [file for file in sorted(path.rglob("*")) if file.suffix.lower() in ENDINGS]
            if not found:
                raise PictureError(
                    f"{path}: a folder without pictures: no name in it ends in {', '.join(ENDINGS)}"
                )
            yield from map(str, found)
        else:
            yield name
