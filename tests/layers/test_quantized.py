import pytest
import torch
from torch import nn

from regard.attention.multihead import StackedLinear
from regard.errors import SettingsError
from regard.layers.quantized import MIN_FEATURES, Bfloat16Linear, Int8Linear, quantize
from regard.layers.transformer_parts import TiedEmbeddings
from regard.models.build import build_model
from regard.models.translation.rnn import RnnSettings
from regard.models.translation.transformer_settings import TransformerSettings
from regard.types import Padded

M, D, N = 7, 48, 40
TWINS = {Int8Linear: 0.02, Bfloat16Linear: 0.01}  # how far they may be from the layer, of its size


def layer(*, bias=True):
    torch.manual_seed(0)
    return StackedLinear(D, [N - 8, 8], bias=bias)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("twin", TWINS)
def test_a_twin_is_near_its_layer(twin, bias):
    with torch.no_grad():
        linear = layer(bias=bias)
        other, x = twin(linear.weight, linear.bias), torch.randn(2, M, D)
        wanted, found = linear(x), other(x)
        assert found.dtype == torch.float32
        assert (found - wanted).norm() < TWINS[twin] * wanted.norm()
        assert not torch.equal(found, wanted)
        torch.testing.assert_close(other(x, (8, 24)), found[..., 8:24])
        torch.testing.assert_close(linear(x, (8, 24)), wanted[..., 8:24])


def test_int8_is_the_formula_it_says():
    with torch.no_grad():
        linear, x = layer(), torch.randn(M, D)
        scaled = linear.weight.abs().amax(1, keepdim=True) / 127
        scales_in = x.abs().amax(1, keepdim=True) / 127
        rounded = (linear.weight / scaled).round().double(), (x / scales_in).round().double()
        wanted = (rounded[1] @ rounded[0].T * scales_in * scaled.T).float() + linear.bias
        torch.testing.assert_close(Int8Linear(linear.weight, linear.bias)(x), wanted)


def test_what_is_not_negative_has_twice_the_steps():
    with torch.no_grad():
        linear, x = layer(), torch.randn(M, D).relu()
        scaled = linear.weight.abs().amax(1, keepdim=True) / 127
        scales_in = x.amax(1, keepdim=True) / 254
        rounded = (linear.weight / scaled).round().double(), (x / scales_in).round().double()
        wanted = (rounded[1] @ rounded[0].T * scales_in * scaled.T).float() + linear.bias
        fine = Int8Linear(linear.weight, linear.bias, positive=True)
        torch.testing.assert_close(fine(x), wanted, rtol=1e-3, atol=1e-3)
        torch.testing.assert_close(fine(x, (8, 24)), fine(x)[..., 8:24])
        assert torch.equal(fine(torch.zeros(1, D))[0], linear.bias)
        coarse = Int8Linear(linear.weight, linear.bias)
        exact = linear(x)
        assert (fine(x) - exact).norm() < 0.8 * (coarse(x) - exact).norm()


def test_only_what_a_relu_gives_is_known_not_to_be_negative():
    found = {
        name: module.positive
        for name, module in quantize(transformer(), "int8").named_modules()
        if isinstance(module, Int8Linear)
    }
    assert {name for name, positive in found.items() if positive} == {
        "encoder.0.feed.outer",
        "decoder.0.feed.outer",
    }
    settings = TransformerSettings(preset=None, width=64, heads=2, activation="gelu")
    other = quantize(build_model(settings, 50, 50, joint=True), "int8")
    assert not any(getattr(module, "positive", False) for module in other.modules())


def test_no_row_depends_on_those_beside_it():
    with torch.no_grad():
        linear = layer()
        other, x = Int8Linear(linear.weight, linear.bias), torch.randn(M, D)
        x[3] *= 1000.0
        for row in range(M):
            assert torch.equal(other(x[row : row + 1]), other(x)[row : row + 1])


def test_rows_of_zeros_and_of_what_is_no_number():
    with torch.no_grad():
        linear = layer()
        other, x = Int8Linear(linear.weight, linear.bias), torch.zeros(2, D)
        x[1, 3] = float("nan")
        found = other(x)
        assert torch.equal(found[0], linear.bias)
        assert found[1].isnan().all()


def transformer():
    torch.manual_seed(0)
    settings = TransformerSettings(
        encoder_layers=1, decoder_layers=1, width=64, heads=2, feed_forward=96
    )
    return build_model(settings, 50, 50, joint=True).eval()


@pytest.mark.parametrize("precision", ["bfloat16", "int8"])
def test_all_products_with_weights_are_found(precision):
    with torch.no_grad():
        model = transformer()
        source = Padded(torch.randint(50, (2, 6)), torch.ones(2, 6, dtype=torch.bool))
        target = Padded(torch.randint(50, (2, 5)), torch.ones(2, 5, dtype=torch.bool))
        wanted = model(source, target)
        names = set(model.state_dict())
        assert quantize(model, precision) is model
        assert not any(isinstance(module, nn.Linear) for module in model.modules())
        assert model.embeddings.quantized_output is not None
        found = model(source, target)
        assert 0 < (found - wanted).norm() < 0.05 * wanted.norm()
        assert {name for name in names if "norm" in name or "embeddings" in name} <= set(
            model.state_dict()
        )


def test_away_from_a_cpu_all_of_a_model_is_in_bfloat16():
    """`meta` stands for a GPU."""
    model = quantize(transformer().to("meta"), "bfloat16")
    assert {x.dtype for x in model.parameters()} == {torch.bfloat16}
    assert any(isinstance(module, nn.Linear) for module in model.modules())


def test_float32_is_the_model_as_it_is():
    model = transformer()
    before = list(model.modules())
    assert list(quantize(model, "float32").modules()) == before


def test_what_is_small_or_no_linear_layer_stays():
    torch.manual_seed(0)
    small = nn.Sequential(nn.Linear(MIN_FEATURES - 1, 99), nn.Linear(99, MIN_FEATURES))
    quantize(small, "int8")
    assert isinstance(small[0], nn.Linear)
    assert isinstance(small[1], Int8Linear)
    model = build_model(RnnSettings(width=64, embedding=64), 50, 50, joint=False)
    cells = {name for name in model.state_dict() if "weight_hh" in name}
    assert cells
    assert cells <= set(quantize(model, "int8").state_dict())


def test_int8_is_for_cpus():
    with pytest.raises(SettingsError, match="int8 are for CPUs, and the model is on meta"):
        quantize(TiedEmbeddings(5, 5, 8, "shared").to("meta"), "int8")
