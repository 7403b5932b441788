"""Every family of models and its main variants, as small as they can be."""

from typing import NamedTuple

import torch

from regard.models.build import build_model
from regard.models.contracts import AnyModel
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
from regard.types import Padded

B, S, T, V_SOURCE, V_TARGET = 3, 6, 5, 11, 13


def transformer(settings=TransformerSettings, **given):
    sizes = {"encoder_layers": 2, "decoder_layers": 2, "width": 16, "heads": 4, "feed_forward": 12}
    return settings(**(sizes | {"dropout": 0.0, "embeddings": "separate"} | given))


def rnn(**given):
    return RnnSettings(**({"layers": 2, "width": 8, "embedding": 6} | given))


def luong(attention="global", **given):
    reach = None if attention == "global" else 2
    sizes = {"layers": 2, "width": 8, "embedding": 6, "reach": reach, "attention": attention}
    return LuongSettings(**(sizes | given))


def deep(settings, **given):
    """Three layers above one another: the residual connections of GNMT begin at the third."""
    sizes = {"encoder_layers": 3, "decoder_layers": 3, "width": 8, "embedding": 6, "alignment": 7}
    return settings(**(sizes | given))


def bytenet(**given):
    sizes = {"encoder_blocks": 4, "decoder_blocks": 4, "width": 12, "max_dilation": 2}
    return ByteNetSettings(**(sizes | given))


def convs2s(**given):
    sizes = {"encoder_layers": 3, "decoder_layers": 2, "width": 8, "embedding": 6}
    return ConvS2SSettings(**(sizes | given))


VARIANTS = {
    "transformer": transformer(embeddings="shared"),
    "transformer pre-norm": transformer(norm="pre", embeddings="target"),
    "transformer learned": transformer(positions="learned", max_positions=9),
    "transformer relative": transformer(positions="relative", reach=2),
    "transformer rotary": transformer(positions="rotary"),
    "transformer window": transformer(window=1, decoder_layers=4),
    "transformer window relative": transformer(window=2, positions="relative", reach=1),
    "transformer window rotary": transformer(window=2, positions="rotary", norm="pre"),
    "transformer of OpenNMT": transformer(
        sinusoids="tensor2tensor", first_position=1, output_bias=True, source_eos=False
    ),
    "feedback": transformer(FeedbackSettings, embeddings="shared"),
    "feedback pre-norm": transformer(FeedbackSettings, norm="pre", decoder_layers=1),
    "transformer swiglu": transformer(activation="swiglu", bias=False),
    # Experts whose choice rounding to bfloat16 does not change, here and with most seeds.
    "transformer experts": transformer(experts={"count": 3, "every": 1}),
    "transformer experts pre-norm": transformer(norm="pre", experts={"count": 4}),
    "transformer gelu": transformer(activation="gelu", encoder_layers=1, final_norm=True),
    "rnn lstm": rnn(),
    "rnn gru": rnn(cell="gru", reading="both"),
    "rnn one-hot": rnn(embedding=0, layers=1, reading="backward"),
    "rnnsearch": RnnSearchSettings(width=8, embedding=6, alignment=7, readout=5),
    "luong both ways": luong(reading="both"),
    "bytenet": bytenet(),
    "bytenet outgrown": bytenet(stretch=1.0, encoder_blocks=3, decoder_blocks=5),
    "bytenet roomy": bytenet(extra=2, kernel=2, max_dilation=4),
    "convs2s": convs2s(),
    "convs2s waves": convs2s(positions="sinusoid", weight_norm=False, kernel=4),
    "convs2s upper": convs2s(upper=[[12, 3], [9, 1]], max_positions=9),
    "deep-att": deep(DeepAttSettings, memory=5),
    "deep-att shallow": deep(DeepAttSettings, memory=9, encoder_layers=1, decoder_layers=2),
    "gnmt": deep(GnmtSettings),
    "gnmt shallow": deep(GnmtSettings, encoder_layers=2, decoder_layers=2),
    "moe": MoeSettings(width=8, alignment=7, expert_width=5, experts={"count": 3}),
    "moe projected": MoeSettings(
        width=6, units=10, alignment=7, expert_width=5, encoder_layers=2, decoder_layers=3
    ),
} | {
    f"luong {score} {attention} {'fed' if feeding else 'unfed'}": luong(
        score=score, attention=attention, input_feeding=feeding
    )
    for score in ("dot", "general", "concat")
    for attention in ("global", "local-m", "local-p")
    for feeding in (True, False)
}
ATTENTIVE = [name for name in VARIANTS if not name.startswith(("rnn ", "bytenet"))]


class Case(NamedTuple):
    model: AnyModel
    source: Padded
    target: Padded


def padded(lengths, columns, size):
    mask = torch.arange(columns) < torch.tensor(lengths)[:, None]
    return Padded(torch.randint(size, mask.shape), mask)


def tiny(name, *, dtype=torch.float64, seed=0):
    """A model without zero weights, and sentences of different lengths."""
    torch.manual_seed(seed)
    settings = VARIANTS[name]
    joint = getattr(settings, "embeddings", None) == "shared"
    source_size = V_TARGET if joint else V_SOURCE
    model = build_model(settings, source_size, V_TARGET, joint=joint).to(dtype).eval()
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.2 * torch.randn_like(p))
    return Case(model, padded([6, 4, 2], S, source_size), padded([5, 3, 4], T, V_TARGET))


def is_routed(name):
    """Whether a variant has experts, which route padding too."""
    return name.startswith("moe") or "experts" in name
