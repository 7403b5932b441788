from functools import partial

import torch

from regard.batching.collate import collate
from regard.models.build import build_model
from regard.models.translation.luong import LuongSettings
from regard.models.translation.transformer_settings import TransformerSettings
from regard.training.gpu.bf16_weights import Bf16Loss
from regard.training.loss import batch_loss

SIZE = 30
LOSS = partial(batch_loss, smoothing=0.1)
BATCH = collate([[5, 6, 7], [8]], [[4, 5], [6, 7, 8]])


def model(**settings):
    torch.manual_seed(0)
    sizes = {"encoder_layers": 2, "decoder_layers": 1, "width": 16, "heads": 2, "feed_forward": 24}
    return build_model(TransformerSettings(**sizes | settings), SIZE, SIZE, joint=True)


def grads(loss, it):
    loss = loss.loss
    return [loss, *torch.autograd.grad(loss, list(it.parameters()), allow_unused=True)]


def test_every_number_is_autocasts():
    it = model(dropout=0.0)
    halved = Bf16Loss(LOSS, it)
    assert len(halved.weights) == 2 * (2 * 4 + 6)  # weights and biases
    with torch.autocast("cpu", torch.bfloat16):
        wanted, found = grads(LOSS(it, BATCH), it), grads(halved(BATCH), it)
    for one, other in zip(found, wanted, strict=True):
        assert one.dtype == torch.float32
        assert torch.equal(one, other)


def test_without_autocast_nothing_is_rounded():
    it = model(dropout=0.0)
    assert torch.equal(Bf16Loss(LOSS, it)(BATCH).loss, LOSS(it, BATCH).loss)


def test_the_model_keeps_its_weights():
    it = model()
    before = dict(it.named_parameters())
    with torch.autocast("cpu", torch.bfloat16):
        Bf16Loss(LOSS, it)(BATCH)
    after = dict(it.named_parameters())
    assert all(after[name] is before[name] for name in before)


def test_the_output_layer_stays_as_it_is():
    it = build_model(LuongSettings(layers=1, width=8, embedding=6), SIZE, SIZE, joint=True)
    names = set(Bf16Loss(LOSS, it).weights)
    assert names
    assert not any(name.startswith("model.output.") for name in names)


def test_weights_that_are_not_used_have_no_slope():
    it = model(dropout=0.0)
    it.spare = torch.nn.Linear(3, 2)
    with torch.autocast("cpu", torch.bfloat16):
        found = grads(Bf16Loss(LOSS, it)(BATCH), it)
    names = [name for name, _ in it.named_parameters()]
    assert {name for name, grad in zip(names, found[1:], strict=True) if grad is None} == {
        "spare.weight",
        "spare.bias",
    }
