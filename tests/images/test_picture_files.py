import io
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from regard.errors import PictureError
from regard.images.picture_files import (
    MAX_PIXELS,
    crop_square,
    decode_picture,
    find_pictures,
    read_picture,
)

RED, BLUE = (255, 0, 0), (0, 0, 255)


def red_and_blue(mode="RGB"):
    """Red above blue, wider than high: 40 × 60."""
    image = Image.new("RGB", (60, 40), RED)
    image.paste(BLUE, (0, 20, 60, 40))
    return image.convert(mode)


def spelled(image, kind="PNG", **options):
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def near(pixel, colour):
    return np.abs(pixel.astype(int) - colour).max() <= 12  # JPEG is not exact


@pytest.mark.parametrize(
    ("kind", "mode", "notes"),
    [
        ("PNG", "RGB", ()),
        ("PNG", "P", ()),
        ("PNG", "RGBA", ()),
        ("WEBP", "RGB", ()),
        ("GIF", "P", ()),
        ("BMP", "RGB", ()),
        ("TIFF", "CMYK", ("converted from CMYK, without a colour profile",)),
        ("JPEG", "CMYK", ("converted from CMYK, without a colour profile",)),
        ("JPEG", "RGB", ()),
    ],
)
def test_pictures_of_any_kind_become_red_green_and_blue(kind, mode, notes):
    picture = decode_picture(spelled(red_and_blue(mode), kind), "it")
    assert picture.pixels.shape == (40, 60, 3)
    assert picture.pixels.dtype == np.uint8
    assert near(picture.pixels[5, 30], RED)
    assert near(picture.pixels[35, 30], BLUE)
    assert picture.notes == notes


def test_a_picture_is_turned_as_its_camera_noted():
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned a quarter to the right
    content = spelled(red_and_blue(), "JPEG", exif=exif)
    picture = decode_picture(content, "it")
    assert picture.pixels.shape == (60, 40, 3)
    assert near(picture.pixels[30, 35], RED)
    assert near(picture.pixels[30, 5], BLUE)
    assert picture.notes == ("rotated according to its EXIF data",)


def test_transparent_parts_are_white():
    image = Image.new("RGBA", (40, 40), (*RED, 0))
    image.paste((*BLUE, 255), (0, 0, 20, 40))
    picture = decode_picture(spelled(image), "it")
    assert tuple(picture.pixels[5, 5]) == BLUE
    assert tuple(picture.pixels[5, 35]) == (255, 255, 255)
    assert picture.notes == ("transparent parts shown on white",)


@pytest.mark.parametrize(
    ("levels", "kind", "note"),
    [
        (np.array([[0, 32768, 65535]], np.uint16), "PNG", "16 bits a pixel, reduced to 8"),
        (np.array([[0, 0.5, 1]], np.float32), "TIFF", "32 bits a pixel, scaled from 0 to 1"),
        (np.array([[-7, 0, 7]], np.float32), "TIFF", "32 bits a pixel, scaled from -7 to 7"),
    ],
)
def test_more_than_eight_bits_are_scaled_to_bytes(levels, kind, note):
    image = Image.fromarray(np.repeat(np.repeat(levels, 40, 0), 20, 1))
    picture = decode_picture(spelled(image, kind), "it")
    assert [int(picture.pixels[0, x, 0]) for x in (0, 30, 59)] == [0, 128, 255]
    assert picture.notes == (note,)


def test_sixteen_bits_are_reduced_alike_in_either_byte_order():
    levels = np.tile(np.array([20_000, 30_000, 40_000], ">u2"), (40, 20))
    image = Image.frombytes("I;16B", (60, 40), levels.tobytes())
    picture = decode_picture(spelled(image, "TIFF"), "it")
    assert picture.pixels[0, :3, 0].tolist() == [78, 117, 156]
    assert picture.notes == ("16 bits a pixel, reduced to 8",)


def test_one_pixel_is_a_picture_and_said_to_be_small():
    picture = decode_picture(spelled(Image.new("RGB", (1, 1), RED)), "it")
    assert picture.notes == ("only 1 × 1 pixels, enlarged",)
    assert (crop_square(picture.pixels, 8) == RED).all()


def test_a_picture_that_fills_the_memory_is_refused_before_it_is_decoded():
    side = 10_000
    content = spelled(Image.new("1", (side, side)))
    assert side * side > MAX_PIXELS
    assert len(content) < 100_000
    with pytest.raises(PictureError, match="it: 10,000 × 10,000 pixels are 100 megapixels, but at"):
        decode_picture(content, "it")
    with pytest.raises(PictureError, match="it: too large: more than 64 megapixels"):
        decode_picture(b"P6 50000 50000 255\n", "it")


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "TIFF", "GIF"])
def test_a_picture_that_is_cut_off_is_an_error(kind):
    noise = np.random.default_rng(1).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    content = spelled(Image.fromarray(noise), kind)
    for share in (0.01, 0.5, 0.9):
        with pytest.raises(PictureError, match=r"it: (damaged or truncated: .|not a picture, or)"):
            decode_picture(content[: int(share * len(content))], "it")


def test_what_is_no_picture_is_an_error(tmp_path):
    text = tmp_path / "photo.jpg"
    text.write_text("a red square")
    with pytest.raises(PictureError, match=r"photo\.jpg: not a picture, .* are JPEG, PNG"):
        read_picture(text)
    text.write_bytes(b"")
    with pytest.raises(PictureError, match=r"photo\.jpg: an empty file"):
        read_picture(text)
    with pytest.raises(PictureError, match="cannot be read: No such file"):
        read_picture(tmp_path / "missing.png")
    with pytest.raises(PictureError, match="cannot be read: "):
        read_picture(tmp_path)


def test_bytes_that_were_changed_give_a_picture_or_a_clear_error():
    random = np.random.default_rng(7)
    exif = Image.Exif()
    exif[0x0112] = 3
    for kind in ("PNG", "JPEG", "WEBP", "TIFF", "GIF", "BMP"):
        content = np.frombuffer(spelled(red_and_blue(), kind, exif=exif), np.uint8)
        for _ in range(40):
            changed = content.copy()
            changed[random.integers(0, len(changed), 8)] = random.integers(0, 256, 8)
            with suppress(PictureError):  # any other error, or a warning, fails
                assert decode_picture(changed.tobytes(), "it").pixels.ndim == 3


def test_the_square_in_the_middle_is_cropped_whatever_the_shape():
    stripes = np.zeros((1, 3000, 3), np.uint8)
    stripes[:, 1500] = 200
    assert crop_square(stripes, 16).shape == (16, 16, 3)
    picture = np.arange(6 * 4 * 3, dtype=np.uint8).reshape(6, 4, 3)
    assert (crop_square(picture, 4) == picture[1:5]).all()


def test_pictures_of_a_folder_are_found_by_their_endings(tmp_path):
    (tmp_path / "below").mkdir()
    for name in ("b.JPG", "a.png", "notes.txt", "below/c.webp"):
        (tmp_path / name).write_bytes(b"")
    found = [Path(name).relative_to(tmp_path).as_posix() for name in find_pictures([tmp_path])]
    assert found == ["a.png", "b.JPG", "below/c.webp"]
    assert list(find_pictures(["./x.any", ""])) == ["./x.any", ""]
    assert list(find_pictures([300 * "a"])) == [300 * "a"]  # no system has such long names
    (tmp_path / "empty").mkdir()
    with pytest.raises(PictureError, match="a folder without pictures"):
        list(find_pictures([tmp_path / "empty"]))
