"""Low-rank updates: nothing at first, alone in learning, merged without loss."""

import pytest
import torch
from torch import nn

from regard.errors import SettingsError
from regard.layers.low_rank import (
    LoraSettings,
    add_low_rank_updates,
    factorize,
    merged_state_dict,
)
from variants import tiny

NAMES = ["transformer", "transformer pre-norm", "transformer experts", "rnnsearch", "gnmt", "moe"]
SETTINGS = LoraSettings(rank=2, alpha=6.0)


def change_updates(model):
    """Give the updates values, as training does."""
    torch.manual_seed(2)
    for parameter in model.parameters():
        if parameter.requires_grad:
            nn.init.normal_(parameter, std=0.5)


@pytest.mark.parametrize("name", NAMES)
def test_merged_weights_compute_the_same_in_a_plain_model(name):
    model, source, target = tiny(name, dtype=torch.float64)
    plain, _, _ = tiny(name, dtype=torch.float64)
    before = model(source, target)
    names = model.state_dict().keys()
    add_low_rank_updates(model, SETTINGS)
    torch.testing.assert_close(model(source, target), before)  # they begin as zeros
    change_updates(model)
    merged = merged_state_dict(model)
    assert merged.keys() == names
    plain.load_state_dict(merged)
    changed = model(source, target)
    assert not torch.allclose(changed, before)
    torch.testing.assert_close(plain(source, target), changed)


@pytest.mark.parametrize(
    ("options", "learning"),
    [
        ({"embeddings": False}, [(2, 5), (3, 2)]),
        ({"embeddings": True}, [(2, 5), (7, 2), (2, 5), (3, 2)]),
    ],
)
def test_what_learns(options, learning):
    model = nn.Sequential(nn.Embedding(7, 5), nn.Linear(5, 3), nn.LayerNorm(3))
    add_low_rank_updates(model, SETTINGS.model_copy(update=options))
    assert [tuple(p.shape) for p in model.parameters() if p.requires_grad] == learning


def test_shared_embeddings_are_updated_once():
    model, _, _ = tiny("transformer")
    add_low_rank_updates(model, SETTINGS)
    change_updates(model)
    embeddings = model.embeddings
    features = torch.eye(embeddings.width, dtype=embeddings.source.dtype)
    vectors = embeddings.of_target(torch.arange(4)) / embeddings.scale
    torch.testing.assert_close(embeddings.logits(features)[:, :4], vectors.T)


def test_the_update_is_the_papers():
    layer = nn.Linear(5, 3)
    weight = layer.weight.detach().clone()
    add_low_rank_updates(layer, SETTINGS)
    change_updates(layer)
    update = layer.parametrizations.weight[0]
    torch.testing.assert_close(layer.weight, weight + 6 / 2 * update.up @ update.down)


def test_a_matrix_of_that_rank_is_factorized_exactly():
    torch.manual_seed(1)
    matrix = torch.randn(7, 3, dtype=torch.float64) @ torch.randn(3, 9, dtype=torch.float64)
    up, down = factorize(matrix, 3)
    assert (up.shape, down.shape) == ((7, 3), (3, 9))
    torch.testing.assert_close(up @ down, matrix)


def learning_names(model):
    return {name for name, p in model.named_parameters() if p.requires_grad}


def test_a_matrix_of_no_higher_rank_learns_itself():
    model = nn.Sequential(nn.Linear(5, 3), nn.Linear(3, 2))
    add_low_rank_updates(model, SETTINGS)
    updates = {f"0.parametrizations.weight.0.{part}" for part in ("down", "up")}
    assert learning_names(model) == {*updates, "1.weight"}


def test_what_is_new_to_a_model_learns_whole():
    model = nn.Sequential(nn.Linear(5, 3), nn.Linear(3, 4), nn.LayerNorm(4))
    model[2].bias.requires_grad_(False)  # which a model keeps frozen itself
    add_low_rank_updates(model, SETTINGS, {"1.weight", "1.bias", "2.bias"})
    updates = {f"0.parametrizations.weight.0.{part}" for part in ("down", "up")}
    assert learning_names(model) == {*updates, "1.weight", "1.bias"}


@pytest.mark.parametrize("new", [(), {"weight"}])
def test_models_that_cannot_be_updated_are_refused(new):
    model = nn.Linear(9, 3) if new else nn.LayerNorm(3)
    with pytest.raises(SettingsError, match="no linear layers or embeddings that could be updated"):
        add_low_rank_updates(model, SETTINGS, new)
