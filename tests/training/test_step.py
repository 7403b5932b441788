from contextlib import nullcontext
from functools import partial

import torch

from regard.batching.collate import collate
from regard.models.translation.transformer import Transformer
from regard.models.translation.transformer_settings import TransformerSettings
from regard.training.expert_load import ExpertLoad
from regard.training.loss import batch_loss
from regard.training.optimizer import OptimizerSettings, build_optimizer
from regard.training.step import EagerStep, StepContext

SIZE = 20
SETTINGS = {"encoder_layers": 1, "decoder_layers": 1, "width": 16, "heads": 2, "feed_forward": 24}


def context():
    torch.manual_seed(1)
    model = Transformer(TransformerSettings(**SETTINGS, dropout=0.0, bias=False), SIZE, SIZE)
    optimizer = build_optimizer(model, OptimizerSettings())
    totals = torch.zeros(2, dtype=torch.float64)
    loss = partial(batch_loss, smoothing=0.1)
    return StepContext(model, loss, optimizer, None, totals, ExpertLoad(), 1.0, nullcontext)


def test_two_batches_weigh_what_one_of_both_weighs():
    one, both = context(), context()
    sources, targets = [[5, 6], [7, 8]], [[4, 9], [10, 11]]
    EagerStep(one)([collate(sources, targets)], lr=0.1, step=1)
    parts = [collate(sources[at : at + 1], targets[at : at + 1]) for at in (0, 1)]
    EagerStep(both)(parts, lr=0.1, step=1)
    torch.testing.assert_close(one.totals, both.totals)
    for left, right in zip(one.model.parameters(), both.model.parameters(), strict=True):
        torch.testing.assert_close(left, right, atol=1e-4, rtol=1e-3)


def test_a_rate_of_nothing_changes_nothing():
    it = context()
    before = [p.detach().clone() for p in it.model.parameters()]
    EagerStep(it)([collate([[5]], [[6]])], lr=0.0, step=1)
    assert all(map(torch.equal, before, it.model.parameters()))
    assert all(p.grad is None for p in it.model.parameters())
