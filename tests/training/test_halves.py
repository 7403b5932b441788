from functools import partial

import torch

from regard.batching.collate import collate
from regard.models.build import build_model
from regard.models.luong import LuongSettings
from regard.models.transformer import TransformerSettings
from regard.training.halves import Halved
from regard.training.loss import batch_loss

SIZE = 30
LOSS = partial(batch_loss, smoothing=0.1)
BATCH = collate([[5, 6, 7], [8]], [[4, 5], [6, 7, 8]])


def model(**settings):
    torch.manual_seed(0)
    sizes = {"encoder_layers": 2, "decoder_layers": 1, "width": 16, "heads": 2, "feed_forward": 24}
    return build_model(TransformerSettings(**sizes | settings), SIZE, SIZE, joint=True)


def slopes(loss, it):
    minimised = loss.minimised
    return [minimised, *torch.autograd.grad(minimised, list(it.parameters()), allow_unused=True)]


def test_every_number_is_autocasts():
    it = model(dropout=0.0)
    halved = Halved(LOSS, it)
    assert len(halved.weights) == 2 * (2 * 4 + 6)  # weights and biases
    with torch.autocast("cpu", torch.bfloat16):
        wanted, found = slopes(LOSS(it, BATCH), it), slopes(halved(BATCH), it)
    for one, other in zip(found, wanted, strict=True):
        assert one.dtype == torch.float32
        assert torch.equal(one, other)


def test_without_autocast_nothing_is_rounded():
    it = model(dropout=0.0)
    assert torch.equal(Halved(LOSS, it)(BATCH).minimised, LOSS(it, BATCH).minimised)


def test_the_model_keeps_its_weights():
    it = model()
    before = dict(it.named_parameters())
    with torch.autocast("cpu", torch.bfloat16):
        Halved(LOSS, it)(BATCH)
    after = dict(it.named_parameters())
    assert all(after[name] is before[name] for name in before)


def test_the_output_layer_stays_as_it_is():
    it = build_model(LuongSettings(layers=1, width=8, embedding=6), SIZE, SIZE, joint=True)
    names = set(Halved(LOSS, it).weights)
    assert names
    assert not any(name.startswith("model.output.") for name in names)


def test_weights_that_are_not_used_have_no_slope():
    it = model(dropout=0.0)
    it.spare = torch.nn.Linear(3, 2)
    with torch.autocast("cpu", torch.bfloat16):
        found = slopes(Halved(LOSS, it)(BATCH), it)
    names = [name for name, _ in it.named_parameters()]
    assert {name for name, slope in zip(names, found[1:], strict=True) if slope is None} == {
        "spare.weight",
        "spare.bias",
    }
