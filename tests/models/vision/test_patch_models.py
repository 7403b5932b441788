"""What is particular to ViT and Swin."""

import pytest
import torch
from pydantic import ValidationError

from regard.attention.windows import merge_windows, place_windows, split_windows, window_patches
from regard.layers.patches import PatchEmbedding, PatchMerging
from regard.models.vision.swin import Swin, SwinSettings
from regard.models.vision.vit import Vit, VitSettings
from regard.types import PictureWindows, Pixels

B, V, SIZE, D = 3, 5, 16, 6
SWIN = SwinSettings(picture_size=SIZE, patch=2, width=8, stages=(2, 2), heads=(2, 4), window=4)


def pictures(count=B):
    return Pixels(torch.randint(0, 256, (count, 3, SIZE, SIZE), dtype=torch.uint8))


def record(model, inputs):
    """The weights of each layer with the windows that they are of."""
    found = []

    def hook(site, weights):
        found.append((site.windows, weights))
        return weights

    with torch.no_grad():
        model(inputs, hook=hook)
    return found


def test_the_vector_of_a_patch_is_a_convolution():
    torch.manual_seed(0)
    patches, pixels = PatchEmbedding(4, D), torch.randn(B, 3, 8, 12)
    weight = patches.project.weight.view(D, 3, 4, 4)
    wanted = torch.nn.functional.conv2d(pixels, weight, patches.project.bias, stride=4)
    torch.testing.assert_close(patches(pixels), wanted.flatten(2).mT)


def test_merging_takes_two_by_two_patches():
    merging, seen = PatchMerging(1, 6), []
    merging.norm.register_forward_pre_hook(lambda _, given: seen.append(given[0][0]))
    merging(torch.arange(24.0)[None, :, None])  # 4 rows of 6 patches
    assert seen[0][0].tolist() == [0, 6, 1, 7]  # down the left column, then the right one
    assert seen[0][4].tolist() == [14, 20, 15, 21]


@pytest.mark.parametrize("shift", [0, 2])
def test_windows_are_put_back_in_place(shift):
    windows = PictureWindows(8, 4, 4, shift)
    x = torch.randn(B, 32, D)
    assert torch.equal(merge_windows(split_windows(x, windows), windows), x)
    patches = window_patches(windows)
    assert sorted(patches.flatten().tolist()) == list(range(32))
    assert patches[0, 0] == shift * 4 + shift  # the window begins so far from the corner


def test_moved_windows_attend_only_to_neighbours_on_the_picture():
    torch.manual_seed(0)
    model = Swin(SWIN, V).double().eval()
    (plain, weights), (moved, moved_weights), (whole, last), _ = record(model, pictures())
    assert plain == PictureWindows(8, 8, 4)
    assert moved == PictureWindows(8, 8, 4, 2)
    assert whole == PictureWindows(4, 4, 4)  # one window, which has nowhere to move
    assert weights.shape == (B * 4, 2, 16, 16)
    for windows, found in ((plain, weights), (moved, moved_weights), (whole, last)):
        placed = place_windows(found, windows)  # (B, H, T, T)
        torch.testing.assert_close(placed.sum(-1), torch.ones_like(placed[..., 0]))
        places = torch.arange(windows.rows)
        grid = torch.meshgrid(places, places, indexing="ij")
        row, column = (numbers.flatten() for numbers in grid)
        reach = windows.size - 1
        far = ((row[:, None] - row).abs() > reach) | ((column[:, None] - column).abs() > reach)
        assert not placed[..., far].any()
        assert (placed.diagonal(dim1=-2, dim2=-1) > 0).all()


def test_patches_far_apart_meet_through_moved_windows():
    torch.manual_seed(0)
    one = Swin(SWIN.model_copy(update={"stages": (1,), "heads": (2,)}), V).double().eval()
    two = Swin(SWIN.model_copy(update={"stages": (2,), "heads": (2,)}), V).double().eval()
    pixels = torch.rand(1, 3, SIZE, SIZE, dtype=torch.float64) * 255
    for model, meets in ((one, False), (two, True)):
        states = []
        norm = model.last.norm
        handle = norm.register_forward_hook(lambda _, __, out, kept=states: kept.append(out))
        x = pixels.clone().requires_grad_()
        model(Pixels(x))
        handle.remove()
        states[0].view(-1, states[0].shape[-1])[
            3 * 8 + 3, 0
        ].backward()  # the last patch of the first window
        assert x.grad[0, :, 8, 8].any().item() == meets  # the first pixels of the fourth window


def test_the_class_token_looks_at_all_patches():
    torch.manual_seed(0)
    settings = VitSettings(picture_size=SIZE, patch=4, layers=2, width=8, heads=2)
    [(windows, weights), _] = record(Vit(settings, V).eval(), pictures())
    assert windows is None
    assert weights.shape == (B, 2, 17, 17)


@pytest.mark.parametrize(
    "model",
    [
        Vit(VitSettings(picture_size=8, patch=4, layers=3, width=8, heads=2, drop_path=0.9), V),
        Swin(SwinSettings(picture_size=8, width=8, stages=(3,), heads=(2,), drop_path=0.9), V),
    ],
)
def test_stochastic_depth_leaves_layers_out_in_training_alone(model):
    torch.manual_seed(0)
    inputs = Pixels(torch.randint(0, 256, (1, 3, 8, 8), dtype=torch.uint8).expand(64, -1, -1, -1))
    answers = model.train()(inputs)
    assert len(answers.unique(dim=0)) > 1
    assert len(model.eval()(inputs).round(decimals=4).unique(dim=0)) == 1


@pytest.mark.parametrize(
    ("settings", "changes", "message"),
    [
        (VitSettings, {"patch": 5}, "picture_size must be a multiple of patch, got 32 and 5"),
        (VitSettings, {"heads": 5}, "width must be a multiple of heads, got width 192 and heads 5"),
        (SwinSettings, {"heads": (3, 6)}, "a number for each of the 3 stages, got 2"),
        (SwinSettings, {"picture_size": 20}, "picture_size must be a multiple of 8"),
        (SwinSettings, {"window": 5}, "window 5 must divide 16, the patches along a side"),
        (SwinSettings, {"heads": (3, 6, 7)}, "heads 7 must divide 384, the width of stage 2"),
        (SwinSettings, {"pixel_deviation": (0, 1, 1)}, "pixel_deviation must be above 0"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(settings, changes, message):
    with pytest.raises(ValidationError, match=message):
        settings(**changes)
