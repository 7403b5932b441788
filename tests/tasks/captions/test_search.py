"""Captions by a search."""

import torch

from captioners import CNN, STACK, tiny
from regard.decoding.settings import BeamSettings, DecodingSettings, RuleSettings
from regard.models.vision.caption_transformer import CaptionTransformerSettings
from regard.tasks.captions.search import caption_inputs
from regard.text.special_tokens import BOS
from regard.types import Padded

LIMIT = 20


def test_a_caption_that_is_cut_at_the_limit_of_the_model_can_be_decoded_again():
    learned = STACK | {"positions": "learned", "max_positions": LIMIT, "embeddings": "target"}
    settings = CaptionTransformerSettings(encoder=CNN, transformer=learned)
    model, inputs, _ = tiny("transformer", transformer=settings.transformer)
    rules = RuleSettings(max_length=50, min_length=40)
    greedy = DecodingSettings(beam=BeamSettings(size=1), rules=rules)
    for [caption] in caption_inputs(model, inputs, greedy):
        assert len(caption.tokens) == LIMIT - 1
        assert not caption.finished
        ids = torch.tensor([[BOS, *caption.tokens]] * len(inputs.values))
        model.decode(Padded(ids, torch.ones_like(ids).bool()), model.encode(inputs))
