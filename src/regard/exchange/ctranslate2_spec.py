"""Our Transformers -> CTranslate2's, by `ctranslate2.specs`, if every weight has a place there."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from ctranslate2.specs import common_spec, model_spec, transformer_spec
from numpy.typing import NDArray

from regard.attention.positions import sinusoid
from regard.models.contracts import AnyGenerator
from regard.models.translation.transformer_settings import TransformerSettings
from regard.settings import Settings
from regard.text.special_tokens import BOS, EOS, SPECIAL_PIECES, UNK, token_labels

Weights = dict[str, NDArray[np.float32]]

ACTIVATIONS = {
    "relu": common_spec.Activation.RELU,
    "gelu": common_spec.Activation.GELU,
    "swiglu": common_spec.Activation.SWISH,
}


def unsupported_reason(settings: Settings) -> str | None:
    """Why CTranslate2 cannot run a model with these settings; None: it can."""
    if not isinstance(settings, TransformerSettings):
        return "CTranslate2 runs Transformers only"
    if settings.window is not None:
        return f"CTranslate2 knows no window ({settings.window}) around each position"
    if settings.experts is not None:
        return "CTranslate2 knows no experts in place of feed-forward layers"
    return None


def write_model(
    model: AnyGenerator, settings: Settings, folder: Path, *, precision: str, positions: int
) -> int | None:
    """Write the model into `folder`, its matrices in `precision`; its number of positions
    (`positions` sinusoids), or None: any. Vocabularies hold ids: our tokenizers are used.
    """
    if not isinstance(settings, TransformerSettings) or unsupported_reason(settings):
        raise ValueError(f"not a model for CTranslate2: {unsupported_reason(settings)}")
    weights = {  # copies: quantisation writes into what it is given
        name: one.detach().float().cpu().numpy().copy() for name, one in model.state_dict().items()
    }
    spec = _SpecBuilder(settings, weights, positions).spec()
    if weights:
        raise ValueError(f"weights that have no place in CTranslate2's model: {sorted(weights)}")
    spec.config.unk_token = SPECIAL_PIECES[UNK]
    spec.config.bos_token = spec.config.decoder_start_token = SPECIAL_PIECES[BOS]
    spec.config.eos_token = SPECIAL_PIECES[EOS]
    spec.config.add_source_eos = True
    spec.config.layer_norm_epsilon = torch.nn.LayerNorm(1).eps
    spec.register_source_vocabulary(token_labels(spec.get_source_vocabulary_size()[0]))
    spec.register_target_vocabulary(token_labels(spec.get_target_vocabulary_size()))
    spec.validate()
    spec.optimize(quantization=precision)
    spec.save(str(folder))
    return {"sinusoid": positions, "learned": settings.max_positions}.get(settings.positions)


class _SpecBuilder(NamedTuple):
    """Moves weights into a specification; each is removed from `weights`."""

    settings: TransformerSettings
    weights: Weights
    positions: int

    def spec(self) -> transformer_spec.TransformerSpec:
        settings = self.settings
        stacks = {
            "num_heads": settings.heads,
            "pre_norm": settings.norm == "pre",
            "no_final_norm": not settings.final_norm,
            "activation": ACTIVATIONS[settings.activation],
            "relative_position": settings.positions == "relative",
            "ffn_glu": settings.activation == "swiglu",
            "rotary_dim": 0 if settings.positions == "rotary" else None,  # 0: all of a head
        }
        encoder = transformer_spec.TransformerEncoderSpec(settings.encoder_layers, **stacks)
        decoder = transformer_spec.TransformerDecoderSpec(settings.decoder_layers, **stacks)
        source = self.weights.pop("embeddings.source")
        target = self.weights.pop("embeddings.target", source)
        encoder.embeddings[0].weight, decoder.embeddings.weight = source, target
        decoder.projection.weight = self.weights.pop("embeddings.output", target)
        self._positions(encoder, "source")
        self._positions(decoder, "target")
        for number, layer in enumerate(encoder.layer):
            self._layer(f"encoder.{number}", layer, bidirectional=True)
        for number, layer in enumerate(decoder.layer):
            name = f"decoder.{number}"
            self._layer(name, layer, bidirectional=False)
            rows = settings.width  # of the queries, before those of keys and values
            cross = layer.attention.linear
            self._linear(f"{name}.cross.project", cross[0], rows=slice(rows), last=False)
            self._linear(f"{name}.cross.project", cross[1], rows=slice(rows, None))
            self._linear(f"{name}.cross.out", cross[2])
            self._layer_norm(f"{name}.around_cross.norm", layer.attention.layer_norm)
        if settings.final_norm:
            self._layer_norm("encoder_norm", _final_norm(encoder))
            self._layer_norm("decoder_norm", _final_norm(decoder))
        return transformer_spec.TransformerSpec(encoder, decoder)

    def _positions(self, stack: model_spec.LayerSpec, side: str) -> None:
        if self.settings.positions == "learned":
            table = self.weights.pop(f"{side}_positions.table.weight")
        elif self.settings.positions == "sinusoid":
            table = sinusoid(torch.arange(self.positions), self.settings.width).numpy()
        else:
            return
        stack.position_encodings.encodings = table

    def _layer(self, name: str, layer: model_spec.LayerSpec, *, bidirectional: bool) -> None:
        """Self-attention and the feed-forward part of a layer."""
        own, feed, settings = layer.self_attention, layer.ffn, self.settings
        self._linear(f"{name}.own.project", own.linear[0])
        self._linear(f"{name}.own.out", own.linear[1])
        self._layer_norm(f"{name}.around_own.norm", own.layer_norm)
        if settings.positions == "relative":  # a vector for each distance to either side
            keys = self.weights.pop(f"{name}.own.relative.vectors")
            if not bidirectional:  # a decoder does not use these rows
                keys = np.concatenate([keys, np.zeros((len(keys) - 1, keys.shape[1]), np.float32)])
            own.relative_position_keys = keys
            own.relative_position_values = np.zeros_like(keys)
        if settings.activation == "swiglu":  # the gate, and what is multiplied by it
            hidden = settings.feed_forward
            self._linear(f"{name}.feed.inner", feed.linear_0, rows=slice(hidden), last=False)
            self._linear(f"{name}.feed.inner", feed.linear_0_noact, rows=slice(hidden, None))
        else:
            self._linear(f"{name}.feed.inner", feed.linear_0)
        self._linear(f"{name}.feed.outer", feed.linear_1)
        self._layer_norm(f"{name}.around_feed.norm", feed.layer_norm)

    def _layer_norm(self, name: str, norm: common_spec.LayerNormSpec) -> None:
        norm.gamma = self.weights.pop(f"{name}.weight")
        norm.beta = self.weights.pop(f"{name}.bias")

    def _linear(
        self,
        name: str,
        linear: common_spec.LinearSpec,
        *,
        rows: slice | None = None,
        last: bool = True,
    ) -> None:
        """All or some rows of a matrix and of its bias; they are kept unless this is the `last`."""
        pop_or_get = self.weights.pop if last else self.weights.__getitem__
        linear.weight = pop_or_get(f"{name}.weight")[rows or slice(None)]
        if self.settings.bias:
            linear.bias = pop_or_get(f"{name}.bias")[rows or slice(None)]


def _final_norm(stack: model_spec.LayerSpec) -> common_spec.LayerNormSpec:
    """The norm at the end of a stack; the specification has none behind post-norm layers."""
    if not hasattr(stack, "layer_norm"):
        vars(stack)["layer_norm"] = common_spec.LayerNormSpec()
    norm: common_spec.LayerNormSpec = stack.layer_norm
    return norm
