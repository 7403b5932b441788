"""Pictures as pipelines read them, and as the viewer shows attention to them."""

import base64
import io
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from PIL import Image

from regard.errors import PictureError, SettingsError
from regard.images.picture_files import FRAMINGS, Bytes, Framing, Picture, read_picture
from regard.iterate import chunked

SHOWN_SIZE = 448  # pixels of a side of the picture that figures and pages show, at most
JPEG_QUALITY = 90

PictureName = str | os.PathLike[str]
AnswerT = TypeVar("AnswerT")


def answer_pictures(
    names: Sequence[PictureName],
    at_once: int,
    answer: Callable[[list[tuple[str, Picture]], int], Iterable[AnswerT]],
    fail: Callable[[str, str], AnswerT],
) -> Iterator[AnswerT]:
    """An answer for each picture, in order, as they are made: `answer` makes those to pictures with
    their names, `at_once` at most, and `fail` that to one that cannot be read, from the error. It
    is also told how many names came before them.
    """
    first = 0
    for some in chunked(names, at_once):
        read = [(os.fspath(name), try_to_read(name)) for name in some]
        good = [(name, one) for name, one in read if isinstance(one, Picture)]
        answers = iter(answer(good, first) if good else ())
        for name, one in read:
            yield next(answers) if isinstance(one, Picture) else fail(name, str(one))
        first += len(some)


def read_only_picture(pictures: PictureName | Sequence[str]) -> tuple[str, Picture]:
    """The name of a picture to look into, and the picture; a list has this one alone."""
    names = [pictures] if isinstance(pictures, str | os.PathLike) else list(pictures)
    if len(names) != 1:
        raise SettingsError(f"give one PICTURE to look into, got {len(names)}")
    return os.fspath(names[0]), read_picture(names[0])


def try_to_read(name: PictureName) -> Picture | PictureError:
    """The picture in a file, or the error that says why it cannot be read."""
    try:
        return read_picture(name)
    except PictureError as error:
        return error


def shown_pixels(picture: Picture, model_size: int, framing: Framing = "crop") -> Bytes:
    """The square of a picture that the model reads, at least at the model's resolution."""
    size = min(SHOWN_SIZE, *picture.pixels.shape[:2])
    return FRAMINGS[framing](picture.pixels, max(size, model_size), "bicubic")


def picture_address(pixels: Bytes) -> str:
    """A `data:` address with a picture in it."""
    content = io.BytesIO()
    Image.fromarray(pixels).save(content, "JPEG", quality=JPEG_QUALITY, subsampling=0)
    return f"data:image/jpeg;base64,{base64.b64encode(content.getvalue()).decode()}"
