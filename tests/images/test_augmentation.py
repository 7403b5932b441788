import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance, ImageOps

from regard.images.augmentation import (
    AugmentationSettings,
    augment,
    crop_and_flip,
    erase,
    mix,
    zoom,
)
from regard.images.rand_augment import OPERATIONS, apply_operations, rand_augment

B, SIZE, V = 64, 16, 5


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def bytes_of(count=B, size=SIZE):
    return torch.randint(0, 256, (count, 3, size, size), dtype=torch.uint8)


def applied(name, pixels, strength):
    drawn = torch.full((len(pixels),), OPERATIONS.index(name))
    return apply_operations(pixels.float(), drawn, torch.full((len(pixels),), strength))


def to_image(pixels):
    return Image.fromarray(pixels.permute(1, 2, 0).numpy())


def from_image(image):
    return torch.from_numpy(np.array(image)).permute(2, 0, 1).float()


@pytest.mark.parametrize(
    ("name", "strength", "by_pillow"),
    [
        ("identity", 1.0, lambda image: image),
        ("autocontrast", 1.0, ImageOps.autocontrast),
        ("posterize", -1.0, lambda image: ImageOps.posterize(image, 4)),
        ("solarize", 0.5, lambda image: ImageOps.solarize(image, 128)),
        ("brightness", -0.5, lambda image: ImageEnhance.Brightness(image).enhance(0.55)),
        ("colour", 0.5, lambda image: ImageEnhance.Color(image).enhance(1.45)),
        ("contrast", -1.0, lambda image: ImageEnhance.Contrast(image).enhance(0.1)),
    ],
)
def test_colours_change_as_pillow_changes_them(name, strength, by_pillow):
    pixels = bytes_of(3) // 2 + 40
    found = applied(name, pixels, strength)
    wanted = torch.stack([from_image(by_pillow(to_image(one))) for one in pixels])
    assert (found - wanted).abs().max() <= 1.5  # Pillow rounds


def test_equalized_levels_are_about_as_frequent():
    pixels = (torch.rand(2, 3, 64, 64) ** 3 * 255).byte()
    found = applied("equalize", pixels, 1.0)
    counts = torch.histc(found[0, 0], bins=4, min=0, max=256)
    assert counts.min() > 0.8 * 64 * 64 / 4
    flat = torch.full((1, 3, 4, 4), 7, dtype=torch.uint8)
    assert torch.equal(applied("equalize", flat, 1.0), flat.float())


def test_pictures_are_moved_and_turned():
    pixels = torch.zeros(1, 3, 9, 9)
    pixels[..., 4, 6] = 255  # right of the middle
    shifted = applied("shift_x", pixels, 1 / (9 * 0.45))  # by one pixel
    assert shifted[0, 0, 4, 5] > 250
    turned = applied("rotate", pixels, 1.0)[0, 0]
    row, column = divmod(int(turned.argmax()), 9)
    assert row < 4  # counterclockwise, up
    assert column in (5, 6)
    sheared = applied("shear_x", pixels, 1.0)
    assert sheared[0, 0, 4, 6] > 250  # the middle row stays


def test_a_strength_of_zero_changes_nothing_but_levels():
    pixels = bytes_of(4)
    for name in set(OPERATIONS) - {"autocontrast", "equalize"}:
        torch.testing.assert_close(applied(name, pixels, 0.0), pixels.float(), rtol=0, atol=1e-3)


def test_every_picture_draws_its_own_operations():
    pixels = bytes_of(1).expand(B, -1, -1, -1)
    found = rand_augment(pixels.float(), 2, 9)
    assert found.shape == pixels.shape
    assert len(found.unique(dim=0)) > B // 2
    assert found.min() >= 0
    assert found.max() <= 255.001


def test_strengths_may_be_drawn_below_the_magnitude():
    flat = torch.full((512, 3, 8, 8), 100.0)
    levels = {
        vary: rand_augment(flat, 1, 10, vary=vary)[:, 0, 4, 4].unique() for vary in (False, True)
    }
    assert len(levels[False]) < 8 < 20 < len(levels[True])  # of brightness, above all


def test_a_crop_moves_pictures_and_mirrors_half_of_them():
    pixels = bytes_of(1, 4).expand(512, -1, -1, -1)
    found = crop_and_flip(pixels, 1, flip=True)
    padded = torch.nn.functional.pad(pixels[0], (1, 1, 1, 1))
    crops = [padded[:, y : y + 4, x : x + 4] for y in range(3) for x in range(3)]
    allowed = {bytes(one.numpy()) for crop in crops for one in (crop, crop.flip(2).contiguous())}
    assert {bytes(one.numpy()) for one in found} == allowed
    unmoved = crop_and_flip(pixels, 0, flip=True)
    mirrored = (unmoved == pixels[0].flip(2)).flatten(1).all(1).float().mean()
    assert 0.4 < mirrored < 0.6


def test_a_zoom_shows_a_part_of_the_picture():
    ramp = torch.arange(32.0).expand(B, 3, 32, 32)
    found = zoom(ramp, 0.25)
    spans = found.amax((1, 2, 3)) - found.amin((1, 2, 3))
    assert spans.min() > 13  # half of a side and more
    assert spans.min() < 20
    torch.testing.assert_close(zoom(ramp, 1.0), ramp, rtol=0, atol=1e-3)


def test_a_rectangle_is_erased_in_some_pictures():
    x = torch.full((256, 3, SIZE, SIZE), -1.0)
    erased = erase(x, 0.5) >= 0
    assert 0.4 < erased.flatten(1).any(1).float().mean() < 0.6
    shares = erased[:, 0].float().mean((1, 2))
    assert shares.max() <= 0.4
    assert torch.equal(erased[:, 0], erased[:, 2])


@pytest.mark.parametrize("kind", ["mixup", "cutmix"])
def test_labels_are_mixed_as_pictures_are(kind):
    x = torch.zeros(B, 3, SIZE, SIZE)
    x[B // 2 :] = 1.0  # each meets one of the other half
    labels = torch.eye(2)[(torch.arange(B) >= B // 2).long()]
    pixels, mixed = mix(x, labels, AugmentationSettings(**{kind: 1.0}))
    torch.testing.assert_close(mixed.sum(1), torch.ones(B))
    torch.testing.assert_close(pixels.mean((1, 2, 3)), mixed[:, 1])
    whole = ((pixels == 0) | (pixels == 1)).all()
    assert whole == (kind == "cutmix")
    assert mixed[:, 1].std() > 0.1


def test_some_pictures_are_left_unmixed():
    x, labels = torch.rand(512, 3, 4, 4), torch.nn.functional.one_hot(torch.arange(512) % V).float()
    settings = AugmentationSettings(mixup=0.8, cutmix=1.0, mix_share=0.25)
    pixels, mixed = mix(x, labels, settings)
    same = (pixels == x).flatten(1).all(1)
    assert 0.65 < same.float().mean() < 0.85
    assert torch.equal(mixed[same], labels[same])


def test_without_settings_pictures_stay_as_they_are():
    pixels = bytes_of()
    assert torch.equal(augment(pixels, AugmentationSettings()), pixels.float())
    assert not AugmentationSettings(mixup=1.0, mix_share=0).mixes


def test_all_of_it_gives_numbers_of_pixels():
    settings = AugmentationSettings(
        crop_padding=2, crop_area=0.5, flip=True, operations=2, erasing=0.5
    )
    found = augment(bytes_of(), settings)
    assert found.shape == (B, 3, SIZE, SIZE)
    assert 0 <= found.min() < found.max() <= 255.001
