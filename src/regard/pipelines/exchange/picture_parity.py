"""The outputs of picture classifiers, ours and those of `transformers`, for the same pictures."""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.types import Pixels

NUM_NOISE = 4  # pictures of noise in a sample


class PictureSample(NamedTuple):
    """Pictures as bytes (B, 3, size, size), and the model's normalisation."""

    pixels: Tensor
    scale: Any

    @property
    def rows(self) -> list[list[int]]:
        """The index of each picture."""
        return [[number] for number in range(len(self.pixels))]


class PictureParity:
    """Logits of classes; the likeliest one."""

    def scores_tokens(self, model: Any) -> bool:
        return False

    def sample(self, tokenizers: None, model: Any) -> PictureSample:
        """Pictures of noise, and one gradient from corner to corner."""
        rng, size = torch.Generator().manual_seed(0), model.grid[0] * model.patches.size
        noise = torch.randint(256, (NUM_NOISE, 3, size, size), generator=rng)
        ramp = torch.linspace(0, 255, size)
        smooth = (ramp[:, None] + ramp).expand(1, 3, size, size) / 2
        return PictureSample(torch.cat([noise, smooth.long()]).byte(), model.scale)

    def our_logits(self, model: Any, sample: PictureSample) -> Tensor:
        logits: Tensor = model(Pixels(sample.pixels))
        return logits

    def peer_logits(self, peer: Any, sample: PictureSample, vocabulary: None) -> Tensor:
        logits: Tensor = peer(pixel_values=sample.scale(sample.pixels)).logits
        return logits

    def other_logits(self, model: Any, peer: Any, sample: Any, vocabulary: Any) -> None:
        return None

    def our_answers(self, model: Any, sample: PictureSample) -> list[list[int]]:
        return likeliest(self.our_logits(model, sample))

    def peer_answers(self, peer: Any, sample: PictureSample, vocabulary: None) -> list[list[int]]:
        return likeliest(self.peer_logits(peer, sample, vocabulary))


def likeliest(logits: Tensor) -> list[list[int]]:
    """The class of the largest logit of each row (B, V), each as a list of one."""
    found: list[list[int]] = logits.argmax(-1, keepdim=True).tolist()
    return found
