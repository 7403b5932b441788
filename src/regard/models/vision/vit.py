"""ViT: a Transformer encoder over the patches of a picture (Dosovitskiy et al. 2021)."""

from collections.abc import Sequence
from typing import Literal, Self, cast

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from regard.attention.attend import attend
from regard.attention.multihead import MultiHeadAttention, merge_heads
from regard.attention.varlen import PackedLayout, VarlenArgs, attend_packed
from regard.images.picture_files import Framing, Resampling
from regard.kernels.dropout import Dropout
from regard.layers.patches import Colour, PatchEmbedding, PixelScale, picture_sinusoids
from regard.layers.transformer_parts import (
    ActivationName,
    FeedForward,
    PlainActivation,
    Residual,
    drop_path_scales,
)
from regard.models.contracts import PicturePredictor
from regard.settings import NumLayers, Settings, Width
from regard.types import AttentionHook, Pixels, Site

INITIAL_STD = 0.5  # of learned positions: about that of the embeddings of patches beside them
GREY: Colour = (0.5, 0.5, 0.5)


class PictureModelSettings(Settings):
    """The settings that all models over patches of a picture share."""

    picture_size: int = Field(default=32, ge=4, le=1024)
    """The side, in pixels, to which pictures are scaled."""
    dropout: float = Field(default=0.0, ge=0.0, lt=1.0)
    """Dropout after each sub-layer, on embeddings and on attention weights."""
    drop_path: float = Field(default=0.0, ge=0.0, lt=1.0)
    """Share of the examples that skip the sub-layers of the last layer in training (stochastic
    depth, Huang et al. 2016); it rises linearly from 0 at the first layer."""
    pixel_mean: Colour = GREY
    """The mean of red, green and blue in the training pictures, from 0 to 1, which is
    subtracted."""
    pixel_deviation: Colour = GREY
    """The standard deviation of red, green and blue, by which the difference is divided."""
    framing: Framing = "crop"
    """How a picture that is not square is made square: by cropping its middle, or by squeezing all
    of it."""
    resampling: Resampling = "bicubic"
    """The interpolation with which pictures are scaled."""
    activation: PlainActivation = "gelu"
    """The activation function of the feed-forward layers."""
    norm_epsilon: float = Field(default=1e-5, gt=0.0, le=1e-2)
    """Added to the variance in the layer norms of layers and of the output."""
    qkv_bias: bool = True
    """Whether the projections to queries, keys and values have biases."""

    @model_validator(mode="after")
    def _check_pixels(self) -> Self:
        if min(self.pixel_deviation) <= 0:
            raise ValueError(f"pixel_deviation must be above 0, got {self.pixel_deviation}")
        return self


class VitSettings(PictureModelSettings):
    """A Transformer encoder over patches."""

    family: Literal["vit"] = "vit"
    """The model family."""
    patch: int = Field(default=4, ge=1, le=256)
    """The side of a patch, in pixels; it must divide that of the picture."""
    layers: NumLayers = 9
    """Number of layers of self-attention and feed-forward."""
    width: Width = 192
    """Width of all vectors between layers."""
    heads: Width = 12
    """Number of attention heads; it must divide the width."""
    feed_forward: Width | None = None
    """Width inside the feed-forward layers; left out: four times the width."""
    positions: Literal["learned", "sinusoid"] = "learned"
    """How the positions of patches are encoded: with learned vectors, or with sinusoids of row and
    column."""
    pooling: Literal["class", "mean"] = "class"
    """What the logits are computed from: the state of a learned class token before the patches, or
    the mean of the patches' states."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.width % self.heads:
            raise ValueError(
                f"width must be a multiple of heads, got width {self.width} and heads {self.heads}"
            )
        if self.picture_size % self.patch:
            raise ValueError(
                f"picture_size must be a multiple of patch, got {self.picture_size} and "
                f"{self.patch}"
            )
        return self


class PatchAttention(MultiHeadAttention):
    """Self-attention of patches, none of which is padding."""

    def __init__(self, width: int, heads: int, *, dropout: float, qkv_bias: bool) -> None:
        super().__init__(width, heads, dropout=dropout)
        if not qkv_bias:
            self.project.register_parameter("bias", None)

    def attend(
        self, x: Tensor, *, site: Site, hook: AttentionHook | None, bias: Tensor | None = None
    ) -> Tensor:
        """The heads (B, S, D) of `x` (B, S, D), with a `bias` (B|1, H, S, S) of the scores."""
        queries, kv = self.project_all(x)
        p = self.dropout_p
        mixed = attend(self.score, queries, kv, None, site=site, bias=bias, dropout=p, hook=hook)
        return merge_heads(mixed)

    def attend_rows(self, x: Tensor, layout: PackedLayout) -> Tensor:
        """The heads (N, D) of the rows of all pictures (N, D), for training: a kernel for short
        sequences reads the projections in place, whereas `attend` would copy them.
        """
        stacked = torch.unflatten(self.project(x), -1, (3, self.heads, -1))  # (N, 3, H, K)
        args = VarlenArgs(layout, layout, causal=False, scale=self.scale, dropout=self.dropout_p)
        return attend_packed([stacked], args).flatten(1)


class PatchLayer(nn.Module):
    """Self-attention and feed-forward, each after a norm and in a residual connection."""

    def __init__(
        self,
        settings: PictureModelSettings,
        width: int,
        heads: int,
        hidden: int,
        *,
        drop_path: float,
    ) -> None:
        super().__init__()
        dropout, epsilon = settings.dropout, settings.norm_epsilon
        activation: ActivationName = settings.activation
        self.drop_path = drop_path
        self.own = PatchAttention(width, heads, dropout=dropout, qkv_bias=settings.qkv_bias)
        self.around_own = Residual(width, "pre", dropout, epsilon=epsilon)
        self.feed = FeedForward(width, hidden, activation, dropout=dropout)
        self.around_feed = Residual(width, "pre", dropout, epsilon=epsilon)

    def after_attention(
        self, x: Tensor, heads: Tensor, following: Residual | None, shape: tuple[int, int]
    ) -> tuple[Tensor, Tensor]:
        """The layer's output (..., D) for its input `x` and the `heads` of its attention, and the
        input of the sub-layer inside the `following` residual, if any. `shape` is (B, T), pictures
        and their patches.
        """
        own, feed, scales = self.around_own, self.around_feed, self._scales(shape, x)
        x, normed = own.post_then_pre(x, heads, self.own.out, feed, scales=scales)
        hidden, scales = self.feed(normed), self._scales(shape, x)
        if following is None:
            x = feed.post(x, hidden, self.feed.outer, scales=scales)
            return x, x
        return feed.post_then_pre(x, hidden, self.feed.outer, following, scales=scales)

    def _scales(self, shape: tuple[int, int], x: Tensor) -> Tensor | None:
        """Factors of a sub-layer's output for each row of `x`; None: 1."""
        if not (self.training and self.drop_path):
            return None
        return drop_path_scales(shape, self.drop_path, x.device).reshape(x.shape[:-1])


class Vit(PicturePredictor):
    """A stack of layers over the embeddings of patches p_i and positions.

        x = [c; E p_1; …; E p_S] + P,   x ← x + Self(N(x)),   x ← x + F(N(x)),   y = W N(x)_c

    c is the class token and N a layer norm; with mean pooling there is no c, and the mean over all
    patches is in its place.
    """

    supports_packing = True  # pictures have no padding

    def __init__(self, settings: VitSettings, classes: int) -> None:
        super().__init__()
        width, side = settings.width, settings.picture_size // settings.patch
        self.grid, self.class_token = (side, side), settings.pooling == "class"
        self.scale = PixelScale(settings.pixel_mean, settings.pixel_deviation)
        self.patches = PatchEmbedding(settings.patch, width)
        length = side * side + self.class_token
        self.register_parameter("first", None)
        if self.class_token:
            self.first = nn.Parameter(torch.empty(1, width))
        self.register_parameter("positions", None)
        if settings.positions == "learned":
            self.positions = nn.Parameter(torch.empty(length, width))
        self.dropout = Dropout(settings.dropout)
        layers = nn.ModuleList(
            PatchLayer(
                settings,
                width,
                settings.heads,
                settings.feed_forward or 4 * width,
                drop_path=rate,
            )
            for rate in drop_rates(settings.drop_path, settings.layers)
        )
        self.layers = cast(Sequence[PatchLayer], layers)
        self.last = Residual(width, "pre", 0.0, epsilon=settings.norm_epsilon)
        self.output = nn.Linear(width, classes)
        init_patch_model(self)
        for vectors in (self.first, self.positions):
            if vectors is not None:
                nn.init.normal_(vectors, std=INITIAL_STD)

    def layer_groups(self) -> Sequence[Sequence[nn.Module]]:
        """Embeddings, then each layer; the last with the last norm and the output layer."""
        return [[self.patches], *([layer] for layer in self.layers)]

    def row_features(self, inputs: Pixels, *, hook: AttentionHook | None = None) -> Tensor:
        x = self._embed(inputs.values)  # (B, S, D)
        count, length, _ = shape = x.shape
        x = x.flatten(0, 1)  # (N, D), where N is B S
        packed = self.training and hook is None and x.dtype != torch.float64
        layout = PackedLayout.without_padding(count, length, x.device) if packed else None
        normed = self.layers[0].around_own.pre(x)
        for index, layer in enumerate(self.layers):
            if layout is None or torch.compiler.is_compiling():
                site = Site("encoder", index)
                heads = layer.own.attend(normed.view(shape), site=site, hook=hook).flatten(0, 1)
            else:
                heads = layer.own.attend_rows(normed, layout)
            last = index + 1 == len(self.layers)
            following = self.last if last else self.layers[index + 1].around_own
            x, normed = layer.after_attention(x, heads, following, (count, length))
        states = normed.view(shape)
        return states[:, 0] if self.class_token else states.mean(1)

    def _embed(self, pixels: Tensor) -> Tensor:
        """(B, 3, height, width) -> (B, S, D)"""
        x = self.patches(self.scale(pixels))
        if self.positions is not None:
            places = self.positions
        else:
            places = picture_sinusoids(*self.grid, x.shape[-1], x.device)
            places = torch.cat([places.new_zeros(int(self.class_token), x.shape[-1]), places])
        if self.first is None:
            return self.dropout(x + places)
        first = (self.first + places[:1]).expand(x.shape[0], 1, -1)
        return self.dropout(torch.cat([first, x + places[1:]], 1))


def drop_rates(last: float, layers: int) -> list[float]:
    """The share of examples that skip each layer, from 0 to `last`."""
    return [last * index / max(1, layers - 1) for index in range(layers)]


def init_patch_model(model: nn.Module) -> None:
    """Draw Xavier normal weights (Glorot and Bengio 2010) and zero biases for all linear layers;
    with the 0.02 of large models, small ones learn slowly at first.
    """
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_normal_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
