import math

import pytest
import torch
import torch.nn.functional as F

from regard.layers.transformer_parts import FeedForward, Residual, TiedEmbeddings, drop_path_scales

B, T, D, HIDDEN, SOURCE, TARGET = 2, 3, 16, 10, 7, 9


@pytest.mark.parametrize(
    ("tying", "names"),
    [
        ("shared", ["source"]),
        ("target", ["source", "target"]),
        ("separate", ["source", "target", "output"]),
    ],
)
def test_a_matrix_is_one_parameter_under_one_name(tying, names):
    size = TARGET if tying == "shared" else SOURCE
    embeddings = TiedEmbeddings(size, TARGET, D, tying)
    assert list(embeddings.state_dict()) == names


@pytest.mark.parametrize(
    ("tying", "source", "target", "output"),
    [
        ("shared", "source", "source", "source"),
        ("target", "source", "target", "target"),
        ("separate", "source", "target", "output"),
    ],
)
def test_each_role_uses_its_matrix(tying, source, target, output):
    embeddings = TiedEmbeddings(TARGET, TARGET, D, tying)
    matrices = embeddings.state_dict()
    ids, features = torch.randint(TARGET, (B, T)), torch.randn(B, T, D)
    torch.testing.assert_close(embeddings.of_source(ids), matrices[source][ids] * math.sqrt(D))
    torch.testing.assert_close(embeddings.of_target(ids), matrices[target][ids] * math.sqrt(D))
    torch.testing.assert_close(embeddings.logits(features), features @ matrices[output].T)


def test_scaled_vectors_have_unit_variance():
    torch.manual_seed(0)
    embeddings = TiedEmbeddings(400, 400, 64, "shared")
    assert abs(embeddings.of_source(torch.arange(400)).std() - 1) < 0.05


def test_shared_needs_one_size():
    with pytest.raises(ValueError, match="one vocabulary, got source_size=7 and target_size=9"):
        TiedEmbeddings(SOURCE, TARGET, D, "shared")


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("name", "activate"), [("relu", F.relu), ("gelu", F.gelu)])
def test_the_activation_follows_the_first_linear_layer(name, activate, bias):
    layer, x = FeedForward(D, HIDDEN, name, bias=bias), torch.randn(B, T, D)
    torch.testing.assert_close(layer(x), activate(layer.inner(x)))
    numbers = 2 * D * HIDDEN + (HIDDEN + D if bias else 0)
    assert sum(p.numel() for p in layer.parameters()) == numbers


def test_the_input_stays_and_gradient_mode_changes_nothing():
    layer, x = FeedForward(D, HIDDEN, "relu"), torch.randn(B, T, D)
    kept = x.clone()
    with torch.no_grad():
        found = layer(x)
    assert torch.equal(x, kept)
    assert torch.equal(found, layer(x))


def test_swiglu_is_gated():
    layer, x = FeedForward(D, HIDDEN, "swiglu", bias=False), torch.randn(B, T, D)
    w, v = layer.inner.weight[:HIDDEN], layer.inner.weight[HIDDEN:]
    torch.testing.assert_close(layer(x), F.silu(x @ w.T) * (x @ v.T))
    assert sum(p.numel() for p in layer.parameters()) == 3 * D * HIDDEN


@pytest.mark.parametrize("name", ["relu", "swiglu"])
def test_each_matrix_is_drawn_as_if_alone(name):
    torch.manual_seed(0)
    layer = FeedForward(64, 192, name)
    bound = (6 / 256) ** 0.5
    for matrix in (*layer.inner.weight.split(192), layer.outer.weight):
        assert 0.98 * bound < matrix.abs().max() <= bound


def test_dropout_is_inside():
    torch.manual_seed(0)
    layer, x = FeedForward(D, HIDDEN, "relu", dropout=0.5), torch.randn(B, T, D)
    assert not torch.equal(layer(x), layer(x))
    layer.eval()
    assert torch.equal(layer(x), layer(x))


def around(place, x, *, dropout=0.0):
    residual = Residual(D, place, dropout)
    return residual, residual.post(x, 2 * residual.pre(x))


def test_post_norm():
    x = torch.randn(B, T, D)
    residual, y = around("post", x)
    torch.testing.assert_close(y, residual.norm(x + 2 * x))


def test_pre_norm():
    x = torch.randn(B, T, D)
    residual, y = around("pre", x)
    torch.testing.assert_close(y, x + 2 * residual.norm(x))


@pytest.mark.parametrize("place", ["pre", "post"])
def test_dropout_applies_to_the_output_of_the_sub_layer(place):
    torch.manual_seed(0)
    residual = Residual(1000, place, 0.5)
    residual.norm = torch.nn.Identity()
    y = residual.post(torch.ones(1000), torch.ones(1000))
    assert sorted(y.unique().tolist()) == [1.0, 3.0]


def test_what_stochastic_depth_keeps_is_scaled_to_the_same_mean():
    torch.manual_seed(0)
    scales = drop_path_scales((5000, 2), 0.3, torch.device("cpu"))
    assert scales.unique().tolist() == pytest.approx([0, 1 / 0.7])
    assert torch.equal(scales[:, 0], scales[:, 1])
    assert scales.mean().item() == pytest.approx(1, abs=0.03)


@pytest.mark.parametrize("place", ["pre", "post"])
def test_the_last_linear_layer_of_the_sub_layer_is_applied(place):
    residual, other = Residual(D, place, 0.0), Residual(D, place, 0.0)
    x, y, linear = torch.randn(T, D), torch.randn(T, HIDDEN), torch.nn.Linear(HIDDEN, D)
    wanted = residual.post(x, linear(y))
    torch.testing.assert_close(residual.post(x, y, linear), wanted)
    found = residual.post_then_pre(x, y, linear, other)
    torch.testing.assert_close(found, (wanted, other.pre(wanted)))
