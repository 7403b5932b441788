import pytest
import torch

from kernels.plain import attend_windows as plain_attend_windows
from regard.kernels import dispatch, window_attention
from regard.kernels.dispatch import use_window_attention
from regard.kernels.window_attention import WindowTile, attend_windows
from regard.models.vision import swin
from regard.models.vision.swin import SwinLayer, SwinSettings
from regard.types import PictureWindows, Site

B, H, K = 3, 2, 16
SCALE = K**-0.5
WINDOWS = {
    "one": PictureWindows(4, 4, 4),
    "unshifted": PictureWindows(8, 12, 4),
    "shifted": PictureWindows(8, 12, 4, 2),
    "shifted by one": PictureWindows(8, 4, 4, 1),
    "odd": PictureWindows(9, 6, 3, 1),
    "tiny": PictureWindows(2, 4, 2, 1),
    "larger tile": PictureWindows(5, 10, 5, 2),
}


@pytest.fixture(autouse=True)
def few_programs(monkeypatch):
    """Each handles several windows, and not all of them as many."""
    for tile in (16, 32, 64):
        monkeypatch.setitem(window_attention.TILES, tile, WindowTile(4, 4 * H))


def given(windows, device, *, pictures=B, width=K, dtype=torch.float32):
    """Projections (B, T, 3, H, K), and the bias (H, N, N), laid out as that of `RelativeBias`."""
    generator = torch.Generator().manual_seed(1)
    patches, places = windows.rows * windows.columns, windows.size**2
    stacked = torch.randn(pictures, patches, 3, H, width, generator=generator)
    bias = torch.randn(places, places, H, generator=generator).permute(2, 0, 1)
    return stacked.to(device, dtype).requires_grad_(), bias.to(device).requires_grad_()


def grads(found, inputs):
    generator = torch.Generator().manual_seed(2)
    ways = torch.randn(found.shape, generator=generator).to(found)
    return torch.autograd.grad(found, inputs, ways)


def check(stacked, bias, windows, scale=SCALE):
    found = attend_windows(stacked, bias, windows, scale=scale)
    wanted = plain_attend_windows(stacked, bias, windows, scale=scale)
    torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-4)
    pair = grads(found, (stacked, bias)), grads(wanted, (stacked, bias))
    torch.testing.assert_close(*pair, atol=5e-5, rtol=1e-4)


@pytest.mark.parametrize("kind", WINDOWS)
def test_the_kernel_equals_the_formula(kind, device):
    check(*given(WINDOWS[kind], device), WINDOWS[kind])


def test_windows_of_the_original_model(device):
    windows = PictureWindows(7, 14, 7, 3)  # 49 places, in a tile of 64
    check(*given(windows, device, pictures=2), windows)


def test_head_widths_need_not_be_powers_of_two(device):
    windows = WINDOWS["shifted"]
    check(*given(windows, device, width=24), windows)


def test_projections_and_gradients_may_be_slices(device):
    windows = WINDOWS["odd"]
    stacked, bias = given(windows, device, width=2 * K)
    check(stacked[..., ::2], bias, windows)
    found = attend_windows(stacked, bias, windows, scale=SCALE).transpose(1, 3)
    wanted = plain_attend_windows(stacked, bias, windows, scale=SCALE).transpose(1, 3)
    pair = grads(found, (stacked, bias)), grads(wanted, (stacked, bias))
    torch.testing.assert_close(*pair, atol=5e-5, rtol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("kind", ["shifted", "larger tile"])
def test_half_precision_is_close_to_the_formula(kind, dtype, device):
    if dtype == torch.bfloat16 and device.type == "cpu":
        pytest.skip("Triton's interpreter cannot multiply matrices of bfloat16")
    windows = WINDOWS[kind]
    inputs = given(windows, device, dtype=dtype)
    found = attend_windows(*inputs, windows, scale=SCALE)
    precise = [x.detach().double().requires_grad_() for x in inputs]
    wanted = plain_attend_windows(*precise, windows, scale=SCALE)
    assert found.dtype == dtype
    ours, theirs = grads(found, inputs), grads(wanted, precise)
    assert [x.dtype for x in ours] == [dtype, torch.float32]
    for one, other in [(found, wanted), *zip(ours, theirs, strict=True)]:
        assert (one.double() - other).norm() < 0.01 * other.norm()


@pytest.mark.parametrize("kind", ["odd", "shifted", "one"])
def test_every_number_is_written(kind, device, monkeypatch):
    windows = WINDOWS[kind]
    inputs = given(windows, device)

    def poisoned(make):
        return lambda *args, **how: make(*args, **how).fill_(float("nan"))

    monkeypatch.setattr(torch.Tensor, "new_empty", poisoned(torch.Tensor.new_empty))
    monkeypatch.setattr(torch, "empty_like", poisoned(torch.empty_like))
    assert torch.empty_like(inputs[0]).isnan().all()
    found = attend_windows(*inputs, windows, scale=SCALE)
    for x in (found, *grads(found, inputs)):
        assert x.isfinite().all()


def test_windows_are_apart(device):
    """Other patches of a picture change nothing in a window, to the last bit."""
    windows = PictureWindows(3, 6, 3)
    stacked, bias = given(windows, device, pictures=1)
    left = torch.arange(18, device=device) % 6 < 3
    changed = torch.where(left[:, None, None, None], stacked, 1e3)
    found, other = (attend_windows(x, bias, windows, scale=SCALE) for x in (stacked, changed))
    assert torch.equal(found[:, left], other[:, left])
    assert not torch.equal(found, other)


def test_gradients_are_the_same_each_time(device):
    windows = WINDOWS["shifted"]
    inputs = given(windows, device)
    runs = [grads(attend_windows(*inputs, windows, scale=SCALE), inputs) for _ in range(2)]
    for one, other in zip(*runs, strict=True):
        assert torch.equal(one, other)


def test_without_pictures_the_gradient_of_the_bias_is_zero(device):
    windows = WINDOWS["shifted"]
    inputs = given(windows, device, pictures=0)
    found = attend_windows(*inputs, windows, scale=SCALE)
    to_stacked, to_bias = grads(found, inputs)
    assert found.shape == (0, 96, H, K)
    assert to_stacked.shape == inputs[0].shape
    assert (to_bias == 0).all()


def layer(windows, device, **settings):
    torch.manual_seed(0)
    given = SwinSettings(picture_size=16, width=H * K, stages=(1,), heads=(H,), **settings)
    made = SwinLayer(given, H * K, H, windows=windows, drop_path=0.0).to(device)
    torch.nn.init.normal_(made.relative.table)
    return made


def gradients(made, x):
    """The heads of `x` in training, and the gradients of `x` and of the layer's parameters."""
    with torch.autocast(x.device.type, torch.bfloat16, enabled=x.is_cuda):
        heads = made.attend(x, 0, None)
    parameters = [*made.own.project.parameters(), made.relative.table]
    return heads, torch.autograd.grad(heads.float().square().sum(), [x, *parameters])


@pytest.mark.parametrize("kind", ["one", "unshifted", "shifted"])
def test_a_layer_trains_with_the_kernel_as_it_does_without(kind, device, monkeypatch):
    windows = WINDOWS[kind]
    made = layer(windows, device).train()
    x = torch.randn(B, windows.rows * windows.columns, H * K, device=device, requires_grad=True)
    calls = []
    record = lambda *args, **how: calls.append(0) or attend_windows(*args, **how)  # noqa: E731
    monkeypatch.setattr(swin, "attend_windows", record)
    found, ours = gradients(made, x)
    assert len(calls) == 1
    monkeypatch.setattr(dispatch, "disabled", {"window_attention"})
    wanted, theirs = gradients(made, x)
    assert len(calls) == 1
    near = 1e-5 if device.type == "cpu" else 5e-2  # there the formula rounds bias and weights
    assert found.shape == wanted.shape
    for one, other in zip((found, *ours), (wanted, *theirs), strict=True):
        assert one.dtype == other.dtype
        assert (one - other).norm() < near * other.norm()


def test_hooks_dropout_inference_and_double_precision_have_the_formula(device, monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("this is not for the kernel")

    monkeypatch.setattr(swin, "attend_windows", refuse)
    windows = WINDOWS["shifted"]
    x = torch.randn(B, windows.rows * windows.columns, H * K, device=device)
    made, sites = layer(windows, device).train(), []

    def hook(site, weights):
        sites.append(site)
        return weights

    made.attend(x, 4, hook)
    assert sites == [Site("encoder", 4, windows=windows)]
    layer(windows, device, dropout=0.5).train().attend(x, 0, None)
    layer(windows, device).eval().attend(x, 0, None)
    layer(windows, device).train().double().attend(x.double(), 0, None)


@pytest.mark.parametrize(
    ("width", "places", "used"), [(16, 64, True), (8, 16, False), (160, 16, False), (32, 81, False)]
)
def test_the_kernel_is_for_windows_that_a_tile_holds(width, places, used, device):
    x = torch.zeros(1, 1, 64, device=device, dtype=torch.float16)
    assert use_window_attention(x, width=width, places=places) == used
