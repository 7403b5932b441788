"""Swin: self-attention in windows that are shifted from layer to layer (Liu et al. 2021)."""

from collections.abc import Sequence
from typing import Annotated, Literal, Self, cast

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from regard.attention.windows import RelativeBias, merge_windows, shift_mask, split_windows
from regard.kernels.dispatch import use_window_attention
from regard.kernels.dropout import Dropout
from regard.kernels.window_attention import attend_windows
from regard.layers.patches import PatchEmbedding, PatchMerging, PixelScale
from regard.layers.transformer_parts import Residual, apply_norm
from regard.models.contracts import PicturePredictor
from regard.models.vision.vit import (
    PatchLayer,
    PictureModelSettings,
    drop_rates,
    init_patch_model,
)
from regard.settings import NumLayers, Width
from regard.types import AttentionHook, PictureWindows, Pixels, Site

Stages = Annotated[tuple[NumLayers, ...], Field(min_length=1, max_length=8)]
StageHeads = Annotated[tuple[Width, ...], Field(min_length=1, max_length=8)]


class SwinSettings(PictureModelSettings):
    """Stages of layers over patches; between stages, each 2 × 2 patches are merged into one."""

    family: Literal["swin"] = "swin"
    """The model family."""
    patch: int = Field(default=2, ge=1, le=256)
    """The side of a patch in the first stage, in pixels."""
    window: int = Field(default=4, ge=1, le=64)
    """Patches along the side of a window. In a stage with no more patches than that, a single
    window covers the whole picture."""
    width: Width = 96
    """Width of the vectors of the first stage; each stage doubles it."""
    stages: Stages = (2, 6, 4)
    """Number of layers of each stage; in every second one, the windows are shifted by half their
    size."""
    heads: StageHeads = (3, 6, 12)
    """Number of attention heads in each stage; it must divide the stage's width."""
    absolute: bool = False
    """Whether learned vectors of their positions are added to the patches."""
    expansion: float = Field(default=4.0, gt=0, le=64)
    """Width inside the feed-forward layers, as a multiple of the stage's width."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if len(self.heads) != len(self.stages):
            raise ValueError(
                f"heads must have a number for each of the {len(self.stages)} stages, got "
                f"{len(self.heads)}"
            )
        coarsest = self.patch * 2 ** (len(self.stages) - 1)
        if self.picture_size % coarsest:
            raise ValueError(
                f"picture_size must be a multiple of {coarsest}, the pixels of a patch in the last "
                f"stage, got {self.picture_size}"
            )
        for number, heads in enumerate(self.heads):
            width, side = self.width << number, self.picture_size // (self.patch << number)
            if width % heads:
                raise ValueError(f"heads {heads} must divide {width}, the width of stage {number}")
            if side > self.window and side % self.window:
                raise ValueError(
                    f"window {self.window} must divide {side}, the patches along a side in stage "
                    f"{number}"
                )
        return self


class SwinLayer(PatchLayer):
    """A layer whose attention stays inside windows, with a bias for the relative position of
    patches.
    """

    mask: Tensor | None

    def __init__(
        self,
        settings: SwinSettings,
        width: int,
        heads: int,
        *,
        windows: PictureWindows,
        drop_path: float,
    ) -> None:
        hidden = round(settings.expansion * width)
        super().__init__(settings, width, heads, hidden, drop_path=drop_path)
        self.windows = windows
        self.relative = RelativeBias(windows.size, heads)
        mask = shift_mask(windows) if windows.shift else None  # (W, 1, N, N)
        self.register_buffer("mask", mask, persistent=False)

    def attend(self, normed: Tensor, layer: int, hook: AttentionHook | None) -> Tensor:
        """The heads (B, T, D) of patches (B, T, D)."""
        if self.training and hook is None and self._use_kernel(normed):
            stacked = torch.unflatten(self.own.project(normed), -1, (3, self.own.heads, -1))
            # (B, T, 3, H, K)
            relative = self.relative()[0]  # (H, N, N)
            mixed = attend_windows(stacked, relative, self.windows, scale=self.own.scale)
            return mixed.flatten(2)  # (B, T, H, K) -> (B, T, D)
        cut = split_windows(normed, self.windows)  # (B W, N, D)
        bias: Tensor = self.relative()  # (1, H, N, N)
        if self.mask is not None:
            bias = torch.where(self.mask, bias, float("-inf"))  # (W, H, N, N)
            like = torch.unflatten(cut, 0, (-1, self.mask.shape[0]))[..., None, :1, :1]
            _, bias = torch.broadcast_tensors(like, bias.to(cut.dtype))  # type: ignore[no-untyped-call]
            bias = bias.flatten(0, 1)  # (B, W, H, N, N) -> (B W, H, N, N)
        site = Site("encoder", layer, windows=self.windows)
        heads = self.own.attend(cut, site=site, hook=hook, bias=bias)
        return merge_windows(heads, self.windows)

    def _use_kernel(self, normed: Tensor) -> bool:
        """Whether the training kernel, which has no dropout, applies to `normed` (B, T, D)."""
        width, places = normed.shape[-1] // self.own.heads, self.windows.size**2
        return not self.own.dropout_p and use_window_attention(normed, width=width, places=places)


class Swin(PicturePredictor):
    """Stages of windowed layers over the embeddings of patches.

        x ← x + Self_w(N(x)),   x ← x + F(N(x)),   Self_w: softmax(q kᵀ / √K + B) v in each window

    Between stages, W N([x_1; x_2; x_3; x_4]) merges 2 × 2 patches. The logits are a linear layer of
    the mean of the last stage's normed states.
    """

    supports_packing = True  # pictures have no padding
    class_token = False

    def __init__(self, settings: SwinSettings, classes: int) -> None:
        super().__init__()
        side, width = settings.picture_size // settings.patch, settings.width
        self.grid = side, side
        self.scale = PixelScale(settings.pixel_mean, settings.pixel_deviation)
        self.patches = PatchEmbedding(settings.patch, width)
        self.norm = nn.LayerNorm(width)
        empty = torch.zeros(side * side, width)
        self.positions = nn.Parameter(empty) if settings.absolute else None
        self.dropout = Dropout(settings.dropout)
        rates = iter(drop_rates(settings.drop_path, sum(settings.stages)))
        stages, mergers = nn.ModuleList(), nn.ModuleList()
        for number, layers in enumerate(settings.stages):
            if number:
                mergers.append(PatchMerging(width, side))
                side, width = side // 2, 2 * width
            stages.append(
                nn.ModuleList(
                    SwinLayer(
                        settings,
                        width,
                        settings.heads[number],
                        windows=_windows(side, settings.window, moved=layer % 2 == 1),
                        drop_path=next(rates),
                    )
                    for layer in range(layers)
                )
            )
        self.stages, self.mergers = cast(Sequence[Sequence[SwinLayer]], stages), mergers
        self.last = Residual(width, "pre", 0.0, epsilon=settings.norm_epsilon)
        self.output = nn.Linear(width, classes)
        init_patch_model(self)

    def layer_groups(self) -> Sequence[Sequence[nn.Module]]:
        """Embeddings, then each stage with the merging before it."""
        mergers = [(), *((merger,) for merger in self.mergers)]
        stages = zip(mergers, self.stages, strict=True)
        first = [self.patches, self.norm]
        return [first, *([*merger, *layers] for merger, layers in stages)]

    def row_features(self, inputs: Pixels, *, hook: AttentionHook | None = None) -> Tensor:
        patches = self.patches(self.scale(inputs.values))  # (B, T, D)
        x = apply_norm(self.norm, patches, self.norm.weight.dtype)
        x = self.dropout(x if self.positions is None else x + self.positions)
        index = 0
        for number, layers in enumerate(self.stages):
            if number:
                x = self.mergers[number - 1](x)  # (B, T / 4, 2 D)
            pictures, count, _ = shape = x.shape
            x = x.flatten(0, 1)  # (N, D), where N is B T
            end = self.last if number + 1 == len(self.stages) else None
            after = [*(layer.around_own for layer in layers[1:]), end]
            normed = layers[0].around_own.pre(x)
            for layer, following in zip(layers, after, strict=True):
                heads = layer.attend(normed.view(shape), index, hook).flatten(0, 1)
                x, normed = layer.after_attention(x, heads, following, (pictures, count))
                index += 1
            x = x.view(shape)
        return normed.view(shape).mean(1)


def _windows(side: int, size: int, *, moved: bool) -> PictureWindows:
    """The windows of a layer; if there is only one, it is not shifted."""
    if side <= size:
        return PictureWindows(side, side, side)
    return PictureWindows(side, side, size, size // 2 if moved else 0)
