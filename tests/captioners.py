"""Captioners and their variants, as small as they can be."""

import torch

from regard.models.vision.build import build_captioner
from regard.models.vision.caption_transformer import CaptionTransformerSettings
from regard.models.vision.encoder_settings import SmallCnnSettings
from regard.models.vision.show_attend_tell import ShowAttendTellSettings
from regard.text.special_tokens import BOS
from regard.types import Batch, Padded, Pixels

B, T, V, SIZE = 3, 5, 13, 16
CNN = SmallCnnSettings(picture_size=SIZE, width=8, layers=2)
STACK = {"encoder_layers": 1, "decoder_layers": 2, "width": 8, "heads": 2, "feed_forward": 12}


def show_attend_tell(**given):
    sizes = {"width": 6, "embedding": 10, "alignment": 7, "dropout": 0.0, "encoder": CNN}
    return ShowAttendTellSettings(**(sizes | given))


VARIANTS = {
    "soft": show_attend_tell(),
    "hard": show_attend_tell(attention="hard"),
    "none": show_attend_tell(attention="none"),
    "transformer": CaptionTransformerSettings(
        encoder=CNN, transformer=STACK | {"dropout": 0.0, "embeddings": "target"}
    ),
}


def tiny(name, dtype=torch.float64, **changed):
    torch.manual_seed(3)
    model = build_captioner(VARIANTS[name].model_copy(update=changed), V).to(dtype).eval()
    generator = torch.Generator().manual_seed(7)
    values = torch.randint(0, 256, (B, 3, SIZE, SIZE), generator=generator, dtype=torch.uint8)
    ids = torch.randint(4, V, (B, T), generator=generator)
    ids[:, 0] = BOS
    mask = torch.arange(T) < torch.tensor([T, 3, 4])[:, None]
    return model, Pixels(values), Padded(ids, mask)


def training_batch(inputs, given):
    positions = given.mask.flatten().nonzero().squeeze(1)
    return Batch(inputs, given, positions, torch.arange(len(positions)) % V)
