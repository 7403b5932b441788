"""That a model trains with the kernels as it does without."""

import pytest
import torch

from regard.batching.collate import collate
from regard.kernels import column_sum, dispatch, fused_add_norm, fused_linear_relu
from regard.kernels.dispatch import use_kernel
from regard.models.translation.transformer import Transformer
from regard.models.translation.transformer_settings import TransformerSettings
from regard.training.loss import batch_loss

SIZE = 40
SETTINGS = {"encoder_layers": 1, "decoder_layers": 1, "width": 32, "heads": 2, "feed_forward": 24}


@pytest.fixture(autouse=True)
def few_programs(where, monkeypatch):
    """Where programs run one after the other there is not one for each core of a GPU.

    Some have nothing to do even so: 5 are more than there are tiles of rows.
    """
    if where.type == "cpu":
        for module, name in (
            (fused_add_norm, "tiles"),
            (fused_linear_relu, "tiles"),
            (column_sum, "first_pass_tiles"),
        ):
            monkeypatch.setattr(module, name, getattr(module, name)._replace(programs=5))


def grads(model, batch, where):
    """The loss, and the slope of each parameter."""
    with torch.autocast(where.type, torch.bfloat16, enabled=where.type == "cuda"):
        loss = batch_loss(model, batch, 0.1).loss
    return loss, torch.autograd.grad(loss, list(model.parameters()))


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("positions", ["sinusoid", "rotary"])
def test_a_model_learns_the_same_with_kernels_and_without(norm, positions, where, monkeypatch):
    torch.manual_seed(0)
    settings = TransformerSettings(**SETTINGS, dropout=0.0, norm=norm, positions=positions)
    model = Transformer(settings, SIZE, SIZE).to(where)
    batch = collate([[5, 6, 7], [8], [9] * 12], [[4, 5], [6, 7, 8], [9] * 10]).to(where)
    found, ours = grads(model, batch, where)
    monkeypatch.setattr(
        dispatch,
        "disabled",
        {"varlen_attention", "fused_add_norm", "fused_linear_relu", "linear", "cross_entropy"},
    )
    wanted, theirs = grads(model, batch, where)
    near = 1e-4 if where.type == "cpu" else 2e-2
    torch.testing.assert_close(found, wanted, rtol=near, atol=near)
    whole = torch.cat([grad.flatten() for grad in theirs]).norm()
    for one, other in zip(ours, theirs, strict=True):
        assert (one - other).norm() < near * whole


def test_a_kernel_can_be_told_not_to(where, monkeypatch):
    x = torch.zeros(1, device=where, dtype=torch.float16)
    assert use_kernel("fused_add_norm", x)
    monkeypatch.setattr(dispatch, "disabled", {"fused_add_norm"})
    assert not use_kernel("fused_add_norm", x)
    assert use_kernel("varlen_attention", x)
