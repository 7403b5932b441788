"""Settings of Transformers and other stacks of attention layers."""

from typing import Any, Literal, Self

from pydantic import Field, PositiveInt, model_validator

from regard.attention.positions import PositionsName, SinusoidLayout, check_max_positions
from regard.layers.experts import ExpertsSettings
from regard.layers.transformer_parts import ActivationName, NormPosition, Tying
from regard.settings import NumLayers, NumPositions, Settings, Width
from regard.text.special_tokens import BOS, SPECIAL_PIECES


def _layers(count: int) -> dict[str, int]:
    return {"encoder_layers": count, "decoder_layers": count}


TRANSFORMER_PRESETS: dict[str, dict[str, Any]] = {
    # Wu et al. 2021 for Multi30k: some thirty thousand pairs.
    "tiny": {**_layers(4), "width": 128, "heads": 4, "feed_forward": 256, "dropout": 0.3},
    # Ours, for a few hundred thousand pairs, or an evening on a CPU.
    "small": {**_layers(3), "width": 256, "heads": 4, "feed_forward": 1024},
    "base": {},  # the defaults of the fields
    "big": {"width": 1024, "heads": 16, "feed_forward": 4096, "dropout": 0.3},
}
"""The values that presets give to fields that are not set."""


def per_side(name: str, encoder: int, decoder: int) -> dict[str, int | None]:
    """The settings for a number of the encoder, and of the decoder if it has another."""
    return {name: encoder, f"decoder_{name}": None if encoder == decoder else decoder}


class StackSettings(Settings):
    """Stacks of attention layers; the defaults are the base model of Vaswani et al. 2017."""

    family: str
    """The model family."""
    preset: Literal["tiny", "small", "base", "big"] | None = None
    """Sizes and dropout for all fields that are not given."""
    encoder_layers: NumLayers = 6
    """Number of layers in the encoder."""
    decoder_layers: NumLayers = 6
    """Number of layers in the decoder."""
    width: Width = 512
    """Width of all vectors between layers, the paper's d_model."""
    heads: Width = 8
    """Number of attention heads; it must divide the width."""
    feed_forward: Width = 2048
    """Width inside the feed-forward layers, the paper's d_ff."""
    dropout: float = Field(default=0.1, ge=0.0, lt=1.0)
    """Dropout after each sub-layer, and on the sums of embeddings and positions."""
    attention_dropout: float = Field(default=0.0, ge=0.0, lt=1.0)
    """Dropout on attention weights (the paper has none)."""
    activation_dropout: float = Field(default=0.0, ge=0.0, lt=1.0)
    """Dropout inside the feed-forward layers (the paper has none)."""
    norm: NormPosition = "post"
    """Whether the layer norm comes after each sub-layer, as in the paper (`post`), or before it
    (`pre`)."""
    final_norm: bool | None = None
    """Whether encoder and decoder end with one more norm; if not given, they do where norm is
    `pre`."""
    activation: ActivationName = "relu"
    """The activation function of the feed-forward layers."""
    embeddings: Tying = "shared"
    """Which of source, target and output share a matrix; `shared` needs a joint vocabulary."""
    bias: bool = True
    """Whether the linear layers have biases."""

    @model_validator(mode="before")
    @classmethod
    def _fill_stacks(cls, given: Any) -> Any:
        """Fill in defaults that depend on the preset or on other fields."""
        if not isinstance(given, dict):
            return given
        preset = given.get("preset") or "base"
        known = TRANSFORMER_PRESETS.get(preset, {}) if isinstance(preset, str) else {}
        filled = {**known, **given}
        if filled.get("final_norm") is None:
            filled["final_norm"] = filled.get("norm") == "pre"
        return filled

    @model_validator(mode="after")
    def _check_stacks(self) -> Self:
        if self.width % self.heads:
            raise ValueError(
                f"width must be a multiple of heads, got width {self.width} and heads {self.heads}"
            )
        return self


class LayerExpertsSettings(ExpertsSettings):
    """Experts in place of feed-forward layers: each has the same inner width, and no biases."""

    every: PositiveInt = 2
    """The interval between layers with experts: 2 gives experts to every second layer, 1 to all."""


class TransformerSettings(StackSettings):
    """A Transformer; the defaults are the paper's base model."""

    family: Literal["transformer"] = "transformer"
    """The model family."""
    source_dropout: float = Field(default=0.0, ge=0.0, lt=1.0)
    """Share of the source tokens whose vectors are set to zero in a training batch."""
    positions: PositionsName = "sinusoid"
    """How positions are encoded: added to token vectors, or (relative and rotary) inside
    self-attention."""
    sinusoids: SinusoidLayout = "interleaved"
    """The layout of sinusoids: the paper's, which interleaves sines and cosines; `halves`, the same
    numbers with all sines before the cosines (Marian); or `tensor2tensor`, in halves with other
    wavelengths (OpenNMT, fairseq)."""
    first_position: int = Field(default=0, ge=0, le=1024)
    """The position of the first token; in a table of learned positions, earlier rows are not
    used."""
    max_positions: NumPositions | None = None
    """The longest sentence, in tokens, that learned positions cover; 1024 if not given."""
    reach: NumPositions | None = None
    """The distance beyond which relative positions are clipped; if not given, 16, or the window if
    it is smaller."""
    window: NumPositions | None = None
    """The window of self-attention: tokens to either side, in the decoder only before; all tokens
    if not given."""
    experts: LayerExpertsSettings | None = None
    """If given, some layers have experts in place of feed-forward layers."""
    scale_embeddings: bool = True
    """Whether token vectors are multiplied by the root of the width, as in the paper."""
    output_bias: bool = False
    """Whether the output layer has a bias."""
    norm_epsilon: float = Field(default=1e-5, gt=0.0, le=1e-2)
    """Added to the variance in layer norms."""
    embedding_norm: bool = False
    """Whether the sums of embeddings and positions have a layer norm, as in BART."""
    absent: tuple[int, ...] = ()
    """Ids that stand for no token and are never generated: special tokens that the vocabulary of an
    imported model lacks."""
    decoder_start: int = Field(default=BOS, ge=0, lt=len(SPECIAL_PIECES))
    """The id of the special token that a target begins with: BOS, or one that has another use too,
    such as padding in Marian (0) and EOS in M2M100 and BART (3)."""
    source_eos: bool = True
    """Whether the encoder reads an EOS after each source; models of OpenNMT were trained without
    it."""
    decoder_heads: Width | None = None
    """Number of attention heads in the decoder; left out: `heads`."""
    decoder_feed_forward: Width | None = None
    """Width inside the feed-forward layers of the decoder; left out: `feed_forward`."""

    @model_validator(mode="before")
    @classmethod
    def _fill(cls, given: Any) -> Any:
        """Fill in defaults that depend on other fields."""
        if not isinstance(given, dict):
            return given
        filled, positions = dict(given), given.get("positions")
        if positions == "learned" and given.get("max_positions") is None:
            filled["max_positions"] = 1024
        if positions == "relative" and given.get("reach") is None:
            window = given.get("window")
            filled["reach"] = min(window, 16) if isinstance(window, int) and window > 0 else 16
        return filled

    @model_validator(mode="after")
    def _check(self) -> Self:
        check_max_positions(self.positions, self.max_positions)
        used_by = {"sinusoids": ("sinusoid",), "first_position": ("sinusoid", "learned")}
        for name, kinds in used_by.items():
            value = getattr(self, name)
            if self.positions not in kinds and value != type(self).model_fields[name].default:
                raise ValueError(f"{name} {value} has no effect on {self.positions} positions")
        if self.positions != "relative" and self.reach is not None:
            raise ValueError(
                f"reach {self.reach} has no effect on {self.positions} positions, which do not "
                "clip distances; leave it out or set positions to 'relative'"
            )
        if self.window is not None and (self.reach or 0) > self.window:
            raise ValueError(
                f"reach {self.reach} has no effect beyond the window of {self.window}, outside of "
                f"which nothing is seen; make it {self.window} or less"
            )
        for heads in (self.heads, self.decoder_heads or self.heads):
            if self.width % heads:
                raise ValueError(f"width {self.width} must be a multiple of decoder_heads {heads}")
            if self.positions == "rotary" and self.width // heads % 2:
                raise ValueError(
                    f"rotary positions rotate pairs of numbers, but width {self.width} in {heads} "
                    f"heads gives each {self.width // heads}, which is odd; choose other heads"
                )
        deepest = max(self.encoder_layers, self.decoder_layers)
        if self.experts is not None and self.experts.every > deepest:
            raise ValueError(
                f"experts.every {self.experts.every} gives no layer experts, as there are only "
                f"{self.encoder_layers} and {self.decoder_layers} layers; make it {deepest} or less"
            )
        return self

    def of_decoder(self) -> "TransformerSettings":
        """The settings of the decoder's layers."""
        own = {"heads": self.decoder_heads, "feed_forward": self.decoder_feed_forward}
        return self.model_copy(update={name: value for name, value in own.items() if value})

    def for_layer(self, layer_index: int) -> "TransformerSettings":
        """The settings of one layer, from 0: without experts where it has none."""
        if self.experts is None or (layer_index + 1) % self.experts.every == 0:
            return self
        return self.model_copy(update={"experts": None})
