import math

import pytest
import torch
from torch.nn.utils.parametrizations import weight_norm

from regard.attention.multihead import StackedLinear
from regard.errors import SettingsError
from regard.layers.character_cnn import Highway
from regard.layers.convolution import Convolution
from regard.layers.transformer_parts import FeedForward
from regard.models.classification.text_classifier import TextClassifier, TextClassifierSettings
from regard.models.language.gpt import GptSettings
from regard.models.vision.vit import Vit, VitSettings
from regard.training.layer_groups import FineTuningSettings
from regard.training.muon import ADAM_RMS, MOMENTUM, orthogonalize
from regard.training.optimizer import (
    OptimizerSettings,
    build_optimizer,
    check_trainable,
    hidden_matrices,
)
from regard.training.settings import TrainingSettings

LR, DECAY = 0.02, 0.1


def model():
    torch.manual_seed(0)
    return Vit(VitSettings(picture_size=8, patch=4, layers=2, width=8, heads=2), 5).double()


def muon(of):
    settings = OptimizerSettings(kind="muon", learning_rate=LR, weight_decay=DECAY)
    return build_optimizer(of, settings)


@pytest.mark.parametrize("shape", [(3, 6, 6), (2, 4, 9)])
def test_singular_values_come_near_to_one_and_vectors_stay(shape):
    x = torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    u, _, vh = torch.linalg.svd(x, full_matrices=False)
    turned = u.mT @ orthogonalize(x) @ vh.mT
    values = turned.diagonal(dim1=1, dim2=2)
    assert ((values > 0.3) & (values < 1.3)).all()
    torch.testing.assert_close(turned, torch.diag_embed(values), atol=1e-9, rtol=0)


def test_matrices_of_one_shape_do_not_mix():
    x = torch.randn(3, 4, 5, dtype=torch.float64)
    alone = torch.cat([orthogonalize(one[None]) for one in x])
    torch.testing.assert_close(orthogonalize(x), alone)


def test_products_are_in_the_precision_of_autocast():
    x = torch.randn(2, 8, 16)
    with torch.autocast("cpu", torch.bfloat16):
        turned = orthogonalize(x)
    assert turned.dtype == torch.bfloat16
    torch.testing.assert_close(turned.float(), orthogonalize(x), atol=0.05, rtol=0)


@pytest.mark.parametrize("name", ["inner", "outer"])
def test_a_step_is_the_formula(name):
    tried = model()
    optimizer, matrix = muon(tried), tried.layers[1].feed.get_submodule(name).weight
    momentum = torch.zeros_like(matrix)
    for _ in range(3):
        for parameter in tried.parameters():
            parameter.grad = torch.randn_like(parameter)
        momentum = MOMENTUM * momentum + (1 - MOMENTUM) * matrix.grad
        ahead = (1 - MOMENTUM) * matrix.grad + MOMENTUM * momentum
        tall = matrix.shape[0] > matrix.shape[1]
        turned = orthogonalize((ahead.T if tall else ahead)[None])[0]
        step = ADAM_RMS * math.sqrt(max(matrix.shape)) * LR * (turned.T if tall else turned)
        wanted = (1 - LR * DECAY) * matrix.detach() - step
        optimizer.step()
        torch.testing.assert_close(matrix.detach(), wanted)


def test_matrices_in_one_weight_move_as_they_would_alone():
    torch.manual_seed(0)
    stack = StackedLinear(6, [8, 4, 4])
    alone = torch.nn.ModuleList(torch.nn.Linear(6, size) for size in stack.sizes)
    grad = torch.randn_like(stack.weight)
    stack.weight.grad = grad
    rows = zip(alone, stack.weight.split(stack.sizes), grad.split(stack.sizes), strict=True)
    for layer, weight, its_grad in rows:
        layer.weight.data, layer.weight.grad = weight.detach().clone(), its_grad
    muon(stack).step()
    muon(alone).step()
    torch.testing.assert_close(stack.weight, torch.cat([layer.weight for layer in alone]))


@pytest.mark.parametrize(
    ("layer", "weight"),
    [
        (FeedForward(6, 4, "swiglu"), "inner.weight"),
        (Convolution(2, 4, 3, gated=True), "linear.weight"),
        (Highway(4, 1), "layers.0.weight"),
    ],
    ids=["swiglu", "gated convolution", "highway"],
)
def test_gates_are_matrices_of_their_own(layer, weight):
    assert hidden_matrices(layer)[layer.get_parameter(weight)] == (4, 4)


def test_updates_are_about_as_large_as_those_of_adam():
    tried = model()
    optimizer, matrix = muon(tried), tried.layers[0].own.project.weight
    matrix.grad = 1e-6 * torch.randn_like(matrix)
    before = matrix.detach().clone()
    optimizer.step()
    change = (matrix.detach() - (1 - LR * DECAY) * before).square().mean().sqrt() / LR
    assert 0.1 < change < 0.3


def test_the_output_and_all_that_is_no_linear_layer_are_left_to_adam():
    tried = model()
    optimizer, names = muon(tried), {p: name for name, p in tried.named_parameters()}
    moved = {names[p] for group in optimizer.matrix_groups for p in group["params"]}
    linear = {
        f"{name}.weight" for name, x in tried.named_modules() if type(x).__name__.endswith("Linear")
    }
    assert moved == linear - {"output.weight"}
    assert len(moved) == 9
    others = {names[p] for group in optimizer.adam.param_groups for p in group["params"]}
    assert moved | others == {*names.values()}
    assert not moved & others
    decayed = {names[p] for g in optimizer.param_groups if g["weight_decay"] for p in g["params"]}
    assert decayed == {name for name, p in tried.named_parameters() if p.ndim > 1}


def test_parameters_without_gradients_stay():
    tried = model()
    before = [p.detach().clone() for p in tried.parameters()]
    optimizer = muon(tried)
    optimizer.step()
    assert all(map(torch.equal, before, tried.parameters()))
    assert not optimizer.state


def test_a_model_without_linear_layers_is_refused():
    with pytest.raises(SettingsError, match=r"Embedding has none below its output, .* choose adam"):
        muon(torch.nn.Embedding(3, 4))


def test_a_check_before_training_changes_no_model():
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 3))
    model[1].bias.requires_grad_(False)
    frozen = FineTuningSettings(frozen_parts=("0",))
    check_trainable(model, OptimizerSettings(), frozen)
    assert [p.requires_grad for p in model.parameters()] == [True, True, True, False]
    with pytest.raises(SettingsError, match="no weights of the model are in 2"):
        check_trainable(model, OptimizerSettings(), FineTuningSettings(frozen_parts=("0", "2")))
    assert [p.requires_grad for p in model.parameters()] == [True, True, True, False]


def test_weights_that_are_computed_from_others_are_left_to_adam():
    tried = model()
    weight_norm(tried.layers[0].feed.inner)
    optimizer, names = muon(tried), {p: name for name, p in tried.named_parameters()}
    moved = {names[p] for group in optimizer.matrix_groups for p in group["params"]}
    assert len(moved) == 8
    assert not any("parametrizations" in name for name in moved)
    linear = weight_norm(torch.nn.Linear(3, 4))
    with pytest.raises(SettingsError, match=r"Sequential has none .* or none without weight norm"):
        muon(torch.nn.Sequential(linear))


def test_output_layers_of_inner_models_are_left_to_adam():
    encoder = GptSettings(layers=1, width=8, heads=2, context=8, tied=False)
    words = [f"w{n}" for n in range(9)]
    tried = TextClassifier(TextClassifierSettings(encoder=encoder), words, 3)
    moved = {p for group in muon(tried).matrix_groups for p in group["params"]}
    assert tried.encoder.untied_output.weight not in moved
    assert len(moved) == 4


def test_what_has_no_effect_or_cannot_be_is_refused():
    with pytest.raises(ValueError, match="momentum has no effect on kind: muon"):
        OptimizerSettings(kind="muon", momentum=0.9)
    with pytest.raises(ValueError, match="muon moves whole matrices, and fine_tuning"):
        TrainingSettings(optimizer=OptimizerSettings(kind="muon"), fine_tuning={"lora": {}})
    with pytest.raises(ValueError, match="muon needs whole matrices"):
        TrainingSettings(optimizer=OptimizerSettings(kind="muon"), sharded=True)
