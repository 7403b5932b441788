"""A tiny model of each family must learn to copy or to reverse: which of them, the seed decides."""

import random
from typing import NamedTuple

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.models.build import FAMILIES, build_model
from regard.models.translation.bytenet import ByteNetSettings
from regard.models.translation.convs2s import ConvS2SSettings
from regard.models.translation.deep_att import DeepAttSettings
from regard.models.translation.feedback import FeedbackSettings
from regard.models.translation.gnmt import GnmtSettings
from regard.models.translation.luong import LuongSettings
from regard.models.translation.moe import MoeSettings
from regard.models.translation.rnn import RnnSettings
from regard.models.translation.rnnsearch import RnnSearchSettings
from regard.models.translation.transformer_settings import TransformerSettings
from regard.text.special_tokens import BOS, EOS, PAD
from regard.types import Padded

SYMBOLS, LONGEST, BATCH = 8, 7, 64
WARMUP, CHECK_EVERY, ENOUGH = 30, 25, 0.99
SIZE = 4 + SYMBOLS


class Lesson(NamedTuple):
    settings: object
    rate: float
    steps: int
    """At most: it ends when all is learned."""
    longest: int = LONGEST


LESSONS = {
    # Without attention all of the sentence must go through one vector: it gets shorter ones.
    "rnn": Lesson(RnnSettings(width=96, embedding=32), 5e-3, 700, longest=4),
    "rnnsearch": Lesson(
        RnnSearchSettings(width=48, embedding=32, alignment=48, readout=48), 5e-3, 400
    ),
    "luong": Lesson(LuongSettings(width=64, embedding=32, layers=1), 5e-3, 400),
    "deep-att": Lesson(
        DeepAttSettings(
            encoder_layers=2, decoder_layers=2, width=32, embedding=32, memory=48, alignment=48
        ),
        8e-3,
        450,
        longest=4,
    ),
    "gnmt": Lesson(
        GnmtSettings(encoder_layers=2, decoder_layers=2, width=48, embedding=32, alignment=48),
        8e-3,
        350,
        longest=4,
    ),
    # Nor has ByteNet attention: its columns must learn where in the sentence they stand.
    "bytenet": Lesson(
        ByteNetSettings(encoder_blocks=4, decoder_blocks=2, width=96, max_dilation=4),
        6e-3,
        350,
        longest=4,
    ),
    "convs2s": Lesson(
        ConvS2SSettings(encoder_layers=2, decoder_layers=2, width=64, embedding=48), 5e-3, 300
    ),
    "moe": Lesson(
        MoeSettings(
            encoder_layers=2, width=64, alignment=48, expert_width=32, experts={"count": 4}
        ),
        8e-3,
        400,
        longest=4,
    ),
    "transformer": Lesson(
        TransformerSettings(
            encoder_layers=1, decoder_layers=1, width=64, heads=4, feed_forward=128, dropout=0.0
        ),
        4e-3,
        450,
        longest=5,
    ),
    "feedback": Lesson(
        FeedbackSettings(
            encoder_layers=1, decoder_layers=1, width=64, heads=4, feed_forward=128, dropout=0.0
        ),
        4e-3,
        400,
        longest=4,
    ),
}


class Drill(NamedTuple):
    source: Padded
    target: Padded
    labels: Tensor


def draw(longest, *, backward, rows=BATCH):
    """Sentences of 1 to `longest` random symbols, and the same or their reverse."""
    lengths = torch.randint(1, longest + 1, (rows, 1))
    place = torch.arange(longest + 1)  # one more for EOS
    symbols = torch.randint(4, SIZE, (rows, longest + 1))
    source = symbols.masked_fill(place == lengths, EOS).masked_fill(place > lengths, PAD)
    turned = symbols.gather(1, (lengths - 1 - place).clamp_min(0)) if backward else symbols
    labels = turned.masked_fill(place == lengths, EOS).masked_fill(place > lengths, PAD)
    target = torch.cat([torch.full((rows, 1), BOS), labels[:, :-1]], 1)
    real = place <= lengths
    return Drill(Padded(source, real), Padded(target, real), labels)


def training_features(model, lesson, *, backward):
    """The share of fresh sentences that it answers without a slip in the end."""
    optimizer = torch.optim.Adam(model.parameters(), lr=lesson.rate)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1, (step + 1) / WARMUP) * (1 - step / lesson.steps)
    )
    share = 0.0
    for step in range(1, lesson.steps + 1):
        drill = draw(lesson.longest, backward=backward)
        logits = model(drill.source, drill.target)
        loss = F.cross_entropy(logits.flatten(0, 1), drill.labels.flatten(), ignore_index=PAD)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % CHECK_EVERY == 0:
            share = exact(model.eval(), lesson, backward=backward)
            if share > ENOUGH:
                break
            model.train()
    return share


@torch.inference_mode()
def exact(model, lesson, *, backward):
    """The share of fresh sentences that a greedy decoder answers without a slip."""
    drill = draw(lesson.longest, backward=backward, rows=500)
    state = model.start(model.encode(drill.source))
    tokens, right = torch.full((500, 1), BOS), torch.ones(500, dtype=torch.bool)
    for t in range(lesson.longest + 1):
        logits, state = model.step(tokens, state)
        tokens = logits.argmax(-1)  # (B, 1)
        right &= (tokens[:, 0] == drill.labels[:, t]) | (drill.labels[:, t] == PAD)
    return right.float().mean().item()


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_learns(family):
    seed = random.randrange(2**31)  # the same in `make test`, another in `make fuzz`
    backward = (seed + list(FAMILIES).index(family)) % 2 == 1
    torch.manual_seed(seed)
    lesson = LESSONS[family]
    model = build_model(lesson.settings, SIZE, SIZE, joint=True)
    share = training_features(model.train(), lesson, backward=backward)
    assert share > ENOUGH, f"{share:.1%} exact with {seed=}, {backward=}"
