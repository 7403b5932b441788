"""Pictures as pipelines read them, and as the viewer shows attention to them."""

import base64
import io
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

from PIL import Image

from regard.errors import PictureError
from regard.images.picture_files import FRAMINGS, Bytes, Framing, Picture, read_picture
from regard.inspection.recording.picture_attention import PictureAttention
from regard.inspection.viewer.layer_maps import encode_maps

SHOWN_SIZE = 448  # pixels of a side of the picture that figures and pages show, at most
JPEG_QUALITY = 90
DOCUMENT_VERSION = 2  # of the viewer's format
DECIMALS = 4

PictureName = str | os.PathLike[str]


class PictureLook(NamedTuple):
    """The texts that the viewer shows beside a picture."""

    name: str  # its file
    text: str  # the answer
    candidates: Sequence[tuple[str, float]]  # answers and their scores, the best first
    notes: Sequence[str]


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


def picture_document(
    look: PictureLook, attention: PictureAttention, *, model: str
) -> dict[str, Any]:
    """An answer with its attention and the picture, as plain data for the viewer."""
    return {
        "version": DOCUMENT_VERSION,
        "model": model,
        "name": look.name,
        "text": look.text,
        "picture": picture_address(attention.pixels),
        "words": list(attention.words),
        "grid": list(attention.grid),
        **encode_maps(attention.maps, attention.grid),
        "candidates": [
            {"text": text, "score": round(score, DECIMALS)} for text, score in look.candidates
        ],
        "notes": list(look.notes),
    }
