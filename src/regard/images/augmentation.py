"""Random changes of training pictures, for a whole batch at once, on any device.

Nothing here synchronizes with the device and all shapes are static, so that a training step can be
captured as a CUDA graph. All randomness comes from torch's generator of the device.
"""

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from pydantic import Field, NonNegativeFloat, NonNegativeInt
from torch import Tensor

from regard.images.rand_augment import MAX_MAGNITUDE, rand_augment
from regard.settings import Settings

MAX_ASPECT = 3.0  # the largest ratio of the sides of an erased rectangle
ERASED_SHARES = (0.02, 0.33)  # of the picture's area (Zhong et al. 2020)


class AugmentationSettings(Settings):
    """Random changes of training pictures; the defaults change nothing."""

    crop_padding: NonNegativeInt = 0
    """Pictures are shifted by up to this many pixels in each direction; the gap is black."""
    crop_area: float = Field(default=1.0, gt=0, le=1)
    """A random square of at least this share of a picture's area is cropped and enlarged to the
    size of the whole; 1: no cropping."""
    flip: bool = False
    """Mirror each picture, left to right, with a probability of one half."""
    operations: NonNegativeInt = 0
    """RandAugment: operations applied to each picture in turn, each drawn from fourteen (Cubuk et
    al. 2020)."""
    magnitude: float = Field(default=9.0, ge=0, le=MAX_MAGNITUDE)
    """RandAugment: the strength of each operation, from 0 to 10."""
    vary_magnitude: bool = False
    """Each operation draws its strength between 0 and `magnitude`; with one operation and a
    magnitude of 10 that is TrivialAugment (Müller and Hutter 2021)."""
    erasing: float = Field(default=0.0, ge=0, le=1)
    """Share of the pictures in which a random rectangle becomes noise (Zhong et al. 2020)."""
    mixup: NonNegativeFloat = 0.0
    """α of Mixup (Zhang et al. 2018): a picture is λ times itself plus 1 - λ times another, and its
    label likewise; λ is drawn from Beta(α, α). 0: no Mixup."""
    cutmix: NonNegativeFloat = 0.0
    """α of CutMix (Yun et al. 2019): a rectangle of 1 - λ of the area comes from another picture,
    and the same share of the label. With both, each picture draws one of the two. 0: no CutMix."""
    mix_share: float = Field(default=1.0, ge=0, le=1)
    """Share of the pictures that are mixed, if `mixup` or `cutmix` is above 0."""

    @property
    def mixes(self) -> bool:
        """Whether labels are mixed too."""
        return self.mix_share > 0 and max(self.mixup, self.cutmix) > 0


class MixedPictures(NamedTuple):
    """Pictures and the probabilities of their classes."""

    pixels: Tensor  # (B, 3, height, width)
    labels: Tensor  # (B, V)


def augment(pixels: Tensor, settings: AugmentationSettings) -> Tensor:
    """`pixels` (B, 3, height, width), bytes, each picture changed independently: floats from 0 to
    255."""
    if settings.crop_padding or settings.flip:
        pixels = crop_and_flip(pixels, settings.crop_padding, flip=settings.flip)
    x = pixels.float()
    if settings.crop_area < 1:
        x = zoom(x, settings.crop_area)
    if settings.operations:
        x = rand_augment(x, settings.operations, settings.magnitude, vary=settings.vary_magnitude)
    return erase(x, settings.erasing) if settings.erasing else x


def crop_and_flip(pixels: Tensor, padding: int, *, flip: bool) -> Tensor:
    """Pictures shifted by up to `padding` pixels, with black around them; half of them mirrored."""
    batch, colours, height, width = pixels.shape
    device = pixels.device
    y, x = (_shifted(batch, size, padding, device) for size in (height, width))  # (B, size) each
    if flip:
        mirrored = torch.randint(2, (batch, 1), device=device).bool()
        x = torch.where(mirrored, x.flip(1), x)
    index = y[:, :, None] * (width + 2 * padding) + x[:, None, :]  # (B, height, width)
    padded = F.pad(pixels, (padding,) * 4).flatten(2)  # (B, 3, N)
    picked = padded.gather(2, index.flatten(1)[:, None].expand(-1, colours, -1))
    return picked.view(pixels.shape)


def _shifted(batch: int, size: int, padding: int, device: torch.device) -> Tensor:
    """The indices (B, size) along a padded side of a random crop of each picture."""
    first = torch.randint(2 * padding + 1, (batch, 1), device=device)
    return first + torch.arange(size, device=device)


def zoom(x: Tensor, least_area: float) -> Tensor:
    """A random square of each picture, of at least `least_area` of its area, enlarged."""
    batch, device = len(x), x.device
    side = torch.empty(batch, device=device).uniform_(least_area, 1).sqrt()  # (B,)
    room = (1 - side)[:, None]  # how far its centre may be from the picture's, from -1 to 1
    centre = (torch.rand(batch, 2, device=device) * 2 - 1) * room  # (B, 2)
    matrices = torch.zeros(batch, 2, 3, device=device)
    matrices[:, 0, 0] = matrices[:, 1, 1] = side
    matrices[:, :, 2] = centre
    places = F.affine_grid(matrices, list(x.shape), align_corners=False)
    return F.grid_sample(x, places, padding_mode="border", align_corners=False)


def erase(x: Tensor, share: float) -> Tensor:
    """A random rectangle of about `share` of the pictures filled with noise."""
    batch, device = len(x), x.device
    areas = torch.empty(batch, device=device).uniform_(*ERASED_SHARES)
    limit = math.log(MAX_ASPECT)
    aspect = torch.empty(batch, device=device).uniform_(-limit, limit).exp()
    chosen = torch.rand(batch, device=device) < share
    inside = rectangles(x, areas * aspect, areas / aspect) & chosen[:, None, None, None]
    return torch.where(inside, torch.rand_like(x) * 255, x)


def rectangles(x: Tensor, tall: Tensor, wide: Tensor) -> Tensor:
    """Whether a pixel is in a random rectangle of its picture: (B, 1, height, width).

    Its sides are √`tall` and √`wide` (B,) of the picture's; it is cut off at the picture's edges.
    """
    inside = []
    for size, square in ((x.shape[2], tall), (x.shape[3], wide)):
        centre = torch.rand(len(x), 1, device=x.device) * size  # (B, 1)
        half = square.sqrt()[:, None] * size / 2
        places = torch.arange(size, device=x.device) + 0.5
        inside.append((places - centre).abs() < half)  # (B, size)
    return (inside[0][:, :, None] & inside[1][:, None, :])[:, None]


def mix(x: Tensor, labels: Tensor, settings: AugmentationSettings) -> MixedPictures:
    """Each picture and its `labels` (B, V), probabilities of classes, mixed with those of its
    counterpart from the other end of the batch.
    """
    batch, device = len(x), x.device
    mixup, cutmix = (_draw_shares(alpha, x) for alpha in (settings.mixup, settings.cutmix))
    mixed = torch.rand(batch, device=device) < settings.mix_share
    chance = (settings.cutmix > 0) / ((settings.cutmix > 0) + (settings.mixup > 0))
    cuts = torch.rand(batch, device=device) < chance
    other = x.flip(0)
    cut_out = rectangles(x, 1 - cutmix, 1 - cutmix)  # of 1 - λ of the area, less at the edges
    share = torch.where(cuts, 1 - cut_out.float().mean((1, 2, 3)), mixup)
    share = torch.where(mixed, share, 1.0)  # (B,)
    blended = torch.lerp(other, x, share[:, None, None, None])
    pasted = torch.where(cut_out & mixed[:, None, None, None], other, x)
    pixels = torch.where(cuts[:, None, None, None], pasted, blended)
    return MixedPictures(pixels, torch.lerp(labels.flip(0), labels, share[:, None]))


def _draw_shares(alpha: float, x: Tensor) -> Tensor:
    """λ of each picture from Beta(α, α): (B,); 1 for α = 0."""
    if alpha == 0:
        return torch.ones(len(x), device=x.device)
    shape = torch.full((len(x), 2), alpha, device=x.device)
    drawn = torch.distributions.Dirichlet(shape, validate_args=False).sample()
    return drawn[:, 0]
