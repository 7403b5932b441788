import pytest
import torch

from ladders import small_recipe
from regard.batching.collate import collate
from regard.models.build import build_model
from regard.tasks.translation.batches import build_loss
from regard.tasks.translation.comparison import flops
from regard.tasks.translation.comparison.flops import count_flops, flops_per_token
from regard.tasks.translation.task import new_model
from regard.tasks.translation.training_inputs import prepare
from tiny import tiny_recipe

COPY = (
    "corpus={name: copy, generated: {train: 300, valid: 20, test: 20}}",
    "text.source={kind: words, size: 400}",
    "training.batch_tokens=512",
)
"""Sources as long as targets, so that positions can be counted by hand."""


def counted(tmp_path, recipe):
    prepared = prepare(recipe, tmp_path, print)
    return flops_per_token(prepared), new_model(recipe, prepared.tokenizers), prepared


def products(model):
    """Entries of all matrices that a position is multiplied with: not those looked up."""
    return sum(
        p.numel() for name, p in model.named_parameters() if p.ndim > 1 and "embed" not in name
    )


def test_a_product_is_two_operations_forward_and_four_backward(tmp_path):
    recipe = tiny_recipe(*COPY, "model={family: rnn, width: 64, embedding: 48, layers: 2}")
    found, model, _ = counted(tmp_path, recipe)
    assert found == pytest.approx(6 * products(model), rel=0.06)


def test_attention_and_a_tied_output_layer_count(tmp_path):
    recipe = tiny_recipe(*COPY)
    found, model, prepared = counted(tmp_path, recipe)
    width, vocabulary = recipe.model.width, prepared.tokenizers.target.size
    mean = float(prepared.train.lengths().source.mean()) + 1
    attended = 2 * 2 * width * mean * (3 + 2 + 2)  # scores and mixing, in each of 7 attentions
    wanted = 6 * (products(model) + width * vocabulary) + 3 * attended
    assert found == pytest.approx(wanted, rel=0.1)


def test_pairs_that_are_seen_twice_cost_twice(tmp_path, monkeypatch):
    monkeypatch.setattr(flops, "NUM_BATCHES", 1)
    dropped = "model.dropout=0.1"
    once = counted(tmp_path / "a", small_recipe("turned", dropped))[0]
    twice = counted(tmp_path / "b", small_recipe("turned", dropped, "training.consistency=1"))[0]
    assert twice == pytest.approx(2 * once, rel=0.01)


def test_the_count_is_the_same_each_time(tmp_path, monkeypatch):
    monkeypatch.setattr(flops, "NUM_BATCHES", 2)
    recipe = small_recipe("plain")
    assert counted(tmp_path, recipe)[0] == counted(tmp_path, recipe)[0] > 1000


def count_long(window, length=1024):
    """Operations of a Transformer on one pair of long sequences."""
    few = {"encoder_layers": 1, "decoder_layers": 1, "window": window}
    recipe = tiny_recipe(*(f"model.{name}={'null' if v is None else v}" for name, v in few.items()))
    model = build_model(recipe.model, 50, 50, joint=True)
    batch = collate([[7] * (length - 1)], [[8] * (length - 1)])
    return count_flops(model, build_loss(recipe.training), batch)


def test_a_window_costs_its_blocks_and_not_the_square():
    length, width, window = 1024, 32, 64
    square, near = count_long(None), count_long(window)
    # scores and mixing, forward once and backward twice, for 3 and 2 blocks of keys in place of all
    saved = 3 * 2 * 2 * width * length * ((length - 3 * window) + (length - 2 * window))
    assert square - near == saved


def test_counting_restores_the_backend_flags():
    before = torch.backends.mkldnn.enabled
    count_long(None, length=4)
    assert torch.backends.mkldnn.enabled == before
