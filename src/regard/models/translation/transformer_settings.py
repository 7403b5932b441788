"""What models made of stacks of attention layers are set by."""

from typing import Any, Literal, Self

from pydantic import Field, model_validator

from regard.layers.embeddings import Tying
from regard.layers.feed_forward import ActivationName
from regard.layers.residual import NormPosition
from regard.settings import NumLayers, Settings, Width

TRANSFORMER_PRESETS: dict[str, dict[str, Any]] = {
    # Wu et al. 2021 for Multi30k: some thirty thousand pairs.
    "tiny": {
        "encoder_layers": 4,
        "decoder_layers": 4,
        "width": 128,
        "heads": 4,
        "feed_forward": 256,
        "dropout": 0.3,
    },
    # Ours, for a few hundred thousand pairs, or an evening on a CPU.
    "small": {
        "encoder_layers": 3,
        "decoder_layers": 3,
        "width": 256,
        "heads": 4,
        "feed_forward": 1024,
    },
    "base": {},  # the defaults of the fields
    "big": {"width": 1024, "heads": 16, "feed_forward": 4096, "dropout": 0.3},
}
"""What the presets say of fields that are not given."""


class StackSettings(Settings):
    """Stacks of layers; with nothing given, of the base model of Vaswani et al. 2017."""

    family: str
    """Which model this is."""
    preset: Literal["tiny", "small", "base", "big"] | None = None
    """Sizes and dropout for all fields that are not given."""
    encoder_layers: NumLayers = 6
    """Layers that read the source."""
    decoder_layers: NumLayers = 6
    """Layers that write the target."""
    width: Width = 512
    """Width of all vectors between layers, the paper's d_model."""
    heads: Width = 8
    """Subspaces in which each attention looks at once; they divide the width."""
    feed_forward: Width = 2048
    """Width inside the feed-forward layers, the paper's d_ff."""
    dropout: float = Field(default=0.1, ge=0.0, lt=1.0)
    """Behind each sub-layer, and on the sums of embeddings and positions."""
    attention_dropout: float = Field(default=0.0, ge=0.0, lt=1.0)
    """On attention weights (the paper has none)."""
    activation_dropout: float = Field(default=0.0, ge=0.0, lt=1.0)
    """Inside the feed-forward layers (the paper has none)."""
    norm: NormPosition = "post"
    """Whether layers are normalised behind each sub-layer, as in the paper, or before it."""
    final_norm: bool | None = None
    """Whether encoder and decoder end in one more norm; if not given, where norm is `pre`."""
    activation: ActivationName = "relu"
    """The bend inside the feed-forward layers."""
    embeddings: Tying = "shared"
    """Which of source, target and output share a matrix; `shared` needs a joint vocabulary."""
    bias: bool = True
    """Whether the linear layers have biases."""

    @model_validator(mode="before")
    @classmethod
    def _fill_stacks(cls, given: Any) -> Any:
        """Make explicit what a preset or another field decides."""
        if not isinstance(given, dict):
            return given
        preset = given.get("preset") or "base"
        filled = {
            **(TRANSFORMER_PRESETS.get(preset, {}) if isinstance(preset, str) else {}),
            **given,
        }
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
