"""BERT, a Transformer encoder that predicts masked tokens (Devlin et al. 2019), and RoBERTa, the
same model without segments and next sentences (Liu et al. 2019).
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal, Self, cast

import torch
from pydantic import Field, PositiveFloat, model_validator
from torch import Tensor, nn

from regard.attention.attend import padding_mask
from regard.attention.multihead import (
    LayerAttention,
    PackedAttention,
    PaddedAttention,
    SelfAttention,
    UnpaddedAttention,
)
from regard.attention.positions import build_positions, check_length
from regard.attention.varlen import PackedLayout
from regard.errors import SettingsError
from regard.kernels.dropout import Dropout
from regard.layers.transformer_parts import (
    ActivationName,
    FeedForward,
    PlainActivation,
    Residual,
    activate,
    draw_normal,
)
from regard.models.contracts import MaskedLanguageModel, OutputProjection
from regard.settings import NumLayers, NumPositions, Settings, Width
from regard.text.special_tokens import PAD
from regard.types import AttentionHook, Padded

INITIAL_STD = 0.02  # of all matrices, as in the authors' code


class BertStackSettings(Settings):
    """A Transformer encoder of text; the defaults are the sizes of BERT's base model."""

    layers: NumLayers = 12
    """Number of layers of self-attention and feed-forward."""
    width: Width = 768
    """Width of all vectors between layers."""
    heads: Width = 12
    """Number of attention heads; it must divide the width."""
    feed_forward: Width | None = None
    """Width inside the feed-forward layers; left out: four times the width."""
    context: NumPositions = 512
    """The most tokens of a text that are seen at once, including special tokens."""
    positions: Literal["learned", "sinusoid", "rotary"] = "learned"
    """How positions are encoded: added to token vectors, or (rotary) inside self-attention. Learned
    ones take long to tell which tokens are neighbours: a small model learns faster with others."""
    activation: PlainActivation = "gelu"
    """The activation function of the feed-forward layers and before the output layer."""
    output_activation: PlainActivation | None = None
    """The activation function before the output layer, if different; left out: `activation`."""
    dropout: float = Field(default=0.1, ge=0.0, lt=1.0)
    """Dropout after each sub-layer, on embeddings and on attention weights."""
    first_position: int = Field(default=0, ge=0, le=1024)
    """The row of the first token in the table of learned positions; earlier rows are not used."""
    mask_id: int | None = Field(default=None, ge=0)
    """The id of the mask token if it is in the vocabulary, as in imported models; left out: it is
    not, and has a vector of its own."""
    tied: bool = True
    """Whether the output layer shares the matrix of the embeddings."""
    fills: bool = True
    """Whether the model has an output layer for masked tokens; imported classifiers and encoders
    have none."""

    @model_validator(mode="after")
    def _check_heads(self) -> Self:
        if self.width % self.heads:
            raise ValueError(
                f"width must be a multiple of heads, got width {self.width} and heads {self.heads}"
            )
        if self.positions == "rotary" and self.width // self.heads % 2:
            raise ValueError(
                f"rotary positions rotate pairs of numbers, but width {self.width} in {self.heads} "
                f"heads gives each {self.width // self.heads}, which is odd; choose other heads"
            )
        if self.first_position and self.positions != "learned":
            raise ValueError(
                f"first_position {self.first_position} has no effect on {self.positions} "
                "positions; leave it out"
            )
        return self


class BertSettings(BertStackSettings):
    """BERT: trained on pairs of texts, with segment embeddings and next-sentence prediction."""

    mask_name: ClassVar[str] = "[MASK]"
    """How the mask token is written in texts for this model."""
    end_names: ClassVar[tuple[str, str]] = ("[CLS]", "[SEP]")
    """How the tokens at the beginning of a text and behind it are written."""

    family: Literal["bert"] = "bert"
    """The model family."""
    segments: int = Field(default=2, ge=0, le=16)
    """Number of segment types, each with a vector that is added to those of its tokens; 0: none."""
    next_sentence: bool = True
    """Train on pairs of texts, and predict whether the second follows the first."""
    norm_epsilon: PositiveFloat = 1e-12
    """Added to the variance in layer norms."""

    @model_validator(mode="after")
    def _check_segments(self) -> Self:
        if self.next_sentence and self.segments < 2:
            raise ValueError(
                f"next_sentence tells two texts apart by their segments, of which there must be 2 "
                f"or more, got segments {self.segments}; raise it, or set next_sentence: false"
            )
        return self


class RobertaSettings(BertStackSettings):
    """RoBERTa: trained on stretches of text only."""

    mask_name: ClassVar[str] = "<mask>"
    """How the mask token is written in texts for this model."""
    end_names: ClassVar[tuple[str, str]] = ("<s>", "</s>")
    """How the tokens at the beginning of a text and behind it are written."""

    family: Literal["roberta"] = "roberta"
    """The model family."""
    segments: int = Field(default=0, ge=0, le=16)
    """Number of segment types, each with a vector that is added to those of its tokens; 0: none."""
    next_sentence: Literal[False] = False
    """Always false: RoBERTa does not predict whether one text follows another."""
    norm_epsilon: PositiveFloat = 1e-5
    """Added to the variance in layer norms."""


class BertLayer(nn.Module):
    """Self-attention and feed-forward, each in a residual connection followed by a norm."""

    def __init__(self, settings: BertSettings | RobertaSettings) -> None:
        super().__init__()
        width, dropout, epsilon = settings.width, settings.dropout, settings.norm_epsilon
        rotary = settings.positions == "rotary"
        self.own = SelfAttention(width, settings.heads, dropout=dropout, rotary=rotary)
        self.around_own = Residual(width, "post", dropout, epsilon=epsilon)
        self.feed = FeedForward(width, settings.feed_forward or 4 * width, settings.activation)
        self.around_feed = Residual(width, "post", dropout, epsilon=epsilon)

    def forward(self, x: Tensor, attention: LayerAttention[SelfAttention], layer: int) -> Tensor:
        """(B, S, D) -> (B, S, D), or (N, D) -> (N, D) of packed texts."""
        heads = attention.self_attend(self.own, x, layer)
        x = self.around_own.post(x, heads, self.own.out)
        return self.around_feed.post(x, self.feed(x), self.feed.outer)


class Bert(MaskedLanguageModel):
    """A stack of layers over the embeddings of tokens, positions and segments, in both directions.

        x = N(E y + P + G s),   x ← N(x + Self(x)),   x ← N(x + F(x))
        p(y_i) = softmax(Eᵀ N(gelu(W x_i + b)) + c),   p(next) = softmax(U tanh(V x_1 + d) + e)

    N is a layer norm and F the feed-forward layer. The output layer shares the matrix E of the
    embeddings, unless `tied` is false. Without a `mask_id`, the mask token has a vector outside E
    and is never predicted. x_1 is the state of BOS, which BERT calls [CLS]; EOS is its [SEP].
    """

    supports_packing = True

    def __init__(self, settings: BertSettings | RobertaSettings, vocabulary: int) -> None:
        super().__init__()
        width, epsilon = settings.width, settings.norm_epsilon
        if settings.mask_id is not None and settings.mask_id >= vocabulary:
            raise SettingsError(
                f"mask_id {settings.mask_id} is not in the vocabulary of {vocabulary:,} tokens"
            )
        self.mask_id = vocabulary if settings.mask_id is None else settings.mask_id
        self.max_length = settings.context if settings.positions == "learned" else None
        self.activation: ActivationName = settings.output_activation or settings.activation
        self.embedding = nn.Embedding(vocabulary, width)
        self.masked = nn.Embedding(1, width) if settings.mask_id is None else None
        self.first_position = first = settings.first_position
        self.positions = build_positions(settings.positions, width, settings.context, first=first)
        self.segments = nn.Embedding(settings.segments, width) if settings.segments else None
        self.norm = nn.LayerNorm(width, epsilon)
        self.dropout = Dropout(settings.dropout)
        layers = nn.ModuleList(BertLayer(settings) for _ in range(settings.layers))
        self.layers = cast(Sequence[BertLayer], layers)
        self.fills = fills = settings.fills
        tied = settings.tied or not fills
        self.transform = nn.Linear(width, width) if fills else None
        self.transform_norm = nn.LayerNorm(width, epsilon) if fills else None
        self.output_bias = nn.Parameter(torch.zeros(vocabulary)) if fills else None
        self.untied_output = None if tied else nn.Linear(width, vocabulary, bias=False)
        self.pooler = nn.Linear(width, width) if settings.next_sentence else None
        self.next_sentence = nn.Linear(width, 2) if settings.next_sentence else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Normal matrices, zero biases."""
        draw_normal(self, INITIAL_STD)

    def layer_groups(self) -> Sequence[Sequence[nn.Module]]:
        """Embeddings, then each layer; the last with the output layers."""
        segments = () if self.segments is None else (self.segments,)
        positions = () if self.positions is None else (self.positions,)
        masked = () if self.masked is None else (self.masked,)
        embeddings = [self.embedding, *masked, *positions, *segments, self.norm]
        return [embeddings, *([layer] for layer in self.layers)]

    def named_rows(self) -> Mapping[str, str]:
        untied = [] if self.untied_output is None else ["untied_output.weight"]
        bias = [] if self.output_bias is None else ["output_bias"]
        tokens = dict.fromkeys(["embedding.weight", *untied, *bias], "tokens")
        return {**tokens, "positions.table.weight": "positions", "segments.weight": "segments"}

    @property
    def state_width(self) -> int:
        return self.embedding.embedding_dim

    def forward(self, inputs: Padded, *, hook: AttentionHook | None = None) -> Tensor:
        """Logits (B, S, V) of the tokens at all positions."""
        states = self.token_states(inputs, hook=hook)
        return self.logits(self._transformed(states))

    def token_states(self, inputs: Padded, *, hook: AttentionHook | None = None) -> Tensor:
        """The states, computed without padding if `indices` are given and the precision
        allows it.
        """
        x = self._embed(inputs)  # (B, S, D)
        exact = hook is not None or self.embedding.weight.dtype == torch.float64
        if exact or inputs.indices is None:
            mask = padding_mask(inputs.mask)
            return self._run(x, PaddedAttention("encoder", inputs.mask, mask, hook))
        layout = PackedLayout.of(inputs.mask, inputs.indices)
        kind = UnpaddedAttention if layout.has_no_padding else PackedAttention
        return layout.unpack(self._run(layout.pack(x), kind("encoder", layout)))

    def features_at(self, states: Tensor, positions: Tensor) -> Tensor:
        return self._transformed(states.flatten(0, 1).index_select(0, positions))

    def next_sentence_logits(self, states: Tensor) -> Tensor | None:
        if self.pooler is None or self.next_sentence is None:
            return None
        logits: Tensor = self.next_sentence(self.pooler(states[:, 0]).tanh())
        return logits

    def logits(self, features: Tensor) -> Tensor:
        return nn.functional.linear(features, *self.output_layer())

    def sharded_layers(self) -> Sequence[nn.Module]:
        return self.layers

    def output_layer(self) -> OutputProjection:
        layer = self.embedding if self.untied_output is None else self.untied_output
        return OutputProjection(layer.weight, self.output_bias)

    def _embed(self, inputs: Padded) -> Tensor:
        """(B, S) -> (B, S, D)"""
        check_length(inputs.ids.shape[1], self.max_length)
        if self.masked is None:
            x = self.embedding(inputs.ids)
        else:
            x = self.embedding(inputs.ids.clamp_max(self.mask_id - 1))
            x = torch.where((inputs.ids == self.mask_id)[..., None], self.masked.weight, x)
        if self.positions is not None:
            x = x + self.positions(self._positions_of(inputs.ids)).to(x.dtype)
        if self.segments is not None:
            segments = inputs.segments if self.segments.num_embeddings > 1 else None
            x = x + (self.segments.weight[0] if segments is None else self.segments(segments))
        return self.dropout(self.norm(x))

    def _positions_of(self, ids: Tensor) -> Tensor:
        """The positions of tokens (B, S): (S,), or (B, S) where PAD has one of its own, before all
        others, even if a text spells it.
        """
        if not self.first_position:
            return torch.arange(ids.shape[1], device=ids.device)
        real = ids != PAD
        return torch.where(real, real.cumsum(1) - 1, -1)

    def _run(self, x: Tensor, attention: LayerAttention[SelfAttention]) -> Tensor:
        for index, layer in enumerate(self.layers):
            x = layer(x, attention, index)
        return x

    def _transformed(self, x: Tensor) -> Tensor:
        """The input of the output layer for states: (..., D) -> (..., D)."""
        if self.transform is None or self.transform_norm is None:
            raise SettingsError(
                "model.fills is false: this encoder has no output layer and cannot fill masked "
                "tokens; regard look shows its attention, and a classifier can start from it "
                "(--from)"
            )
        normed: Tensor = self.transform_norm(activate(self.transform(x), self.activation))
        return normed
