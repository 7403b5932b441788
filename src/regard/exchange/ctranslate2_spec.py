"""Our Transformers -> CTranslate2's, by `ctranslate2.specs`, if every weight has a place there."""

from pathlib import Path

import numpy as np
import torch
from ctranslate2.specs import common_spec, model_spec, transformer_spec
from numpy.typing import NDArray

from regard.attention.positions import SinusoidPositions
from regard.exchange.ctranslate2_names import weight_places
from regard.layers.transformer_parts import ABSENT_LOGIT
from regard.models.contracts import AnyGenerator
from regard.models.translation.transformer_settings import TransformerSettings
from regard.settings import Settings
from regard.text.special_tokens import BOS, EOS, SPECIAL_PIECES, UNK, token_labels

Weights = dict[str, NDArray[np.float32]]

ACTIVATIONS = {
    "relu": common_spec.Activation.RELU,
    "gelu": common_spec.Activation.GELU,
    "gelu_tanh": common_spec.Activation.GELUTanh,
    "silu": common_spec.Activation.SWISH,
    "gelu_sigmoid": common_spec.Activation.GELUSigmoid,
    "tanh": common_spec.Activation.Tanh,
    "sigmoid": common_spec.Activation.Sigmoid,
    "swiglu": common_spec.Activation.SWISH,
}
UNLIMITED = ("relative", "rotary")  # positions that have no table


def unsupported_reason(settings: Settings) -> str | None:
    """Why CTranslate2 cannot run a model with these settings; None: it can."""
    if not isinstance(settings, TransformerSettings):
        return "CTranslate2 runs Transformers only"
    if settings.window is not None:
        return f"CTranslate2 has no window ({settings.window}) around each position"
    if settings.experts is not None:
        return "CTranslate2 has no experts instead of feed-forward layers"
    if settings.activation not in ACTIVATIONS:
        return f"CTranslate2 does not have the activation {settings.activation}"
    return None


def write_model(
    model: AnyGenerator, settings: Settings, folder: Path, *, precision: str, positions: int
) -> int | None:
    """Write the model into `folder`, its matrices in `precision`, with `positions` sinusoids.

    Returns the number of positions; None if unlimited. The vocabularies hold ids, since
    our own tokenizers are used.
    """
    if not isinstance(settings, TransformerSettings) or unsupported_reason(settings):
        raise ValueError(f"not a model for CTranslate2: {unsupported_reason(settings)}")
    weights = {  # copies: quantisation changes its argument
        name: one.detach().float().cpu().numpy().copy() for name, one in model.state_dict().items()
    }
    spec = _empty_spec(settings)
    _set_positions(spec, settings, weights, positions)
    _set_weights(spec, settings, weights)
    spec.config.unk_token = SPECIAL_PIECES[UNK]
    spec.config.bos_token = SPECIAL_PIECES[BOS]
    spec.config.decoder_start_token = SPECIAL_PIECES[settings.decoder_start]
    spec.config.eos_token = SPECIAL_PIECES[EOS]
    spec.config.add_source_eos = settings.source_eos
    spec.config.layer_norm_epsilon = settings.norm_epsilon
    spec.register_source_vocabulary(token_labels(spec.get_source_vocabulary_size()[0]))
    spec.register_target_vocabulary(token_labels(spec.get_target_vocabulary_size()))
    spec.validate()
    spec.optimize(quantization=precision)
    spec.save(str(folder))
    return {"sinusoid": positions, "learned": settings.max_positions}.get(settings.positions)


def _empty_spec(settings: TransformerSettings) -> transformer_spec.TransformerSpec:
    """A specification without weights."""
    stacks = {
        "pre_norm": settings.norm == "pre",
        "no_final_norm": not settings.final_norm,
        "activation": ACTIVATIONS[settings.activation],
        "relative_position": settings.positions == "relative",
        "ffn_glu": settings.activation == "swiglu",
        "layernorm_embedding": settings.embedding_norm,
        "rotary_dim": 0 if settings.positions == "rotary" else None,  # 0: all of a head
    }
    heads = settings.heads, settings.of_decoder().heads
    encoder = transformer_spec.TransformerEncoderSpec(settings.encoder_layers, heads[0], **stacks)
    decoder = transformer_spec.TransformerDecoderSpec(settings.decoder_layers, heads[1], **stacks)
    for stack in (encoder, decoder):
        stack.scale_embeddings = settings.scale_embeddings
        if settings.final_norm and not hasattr(stack, "layer_norm"):
            # the specification has none after post-norm layers
            vars(stack)["layer_norm"] = common_spec.LayerNormSpec()
    return transformer_spec.TransformerSpec(encoder, decoder)


def _set_positions(
    spec: transformer_spec.TransformerSpec,
    settings: TransformerSettings,
    weights: Weights,
    positions: int,
) -> None:
    """Fill the tables of position encodings; learned ones are removed from `weights`."""
    if settings.positions in UNLIMITED:
        return
    sinusoids = SinusoidPositions(settings.width, settings.sinusoids, first=settings.first_position)
    for stack, side in ((spec.encoder, "source"), (spec.decoder, "target")):
        if settings.positions == "learned":
            table = weights.pop(f"{side}_positions.table.weight")[settings.first_position :]
        else:
            table = sinusoids(torch.arange(positions)).numpy()
        stack.position_encodings.encodings = table


def _set_weights(
    spec: transformer_spec.TransformerSpec, settings: TransformerSettings, weights: Weights
) -> None:
    """Fill the rest of the specification; every one of `weights` must have a place."""
    places = weight_places(settings)
    if unknown := weights.keys() - {place.ours for place in places}:
        raise ValueError(f"CTranslate2's model does not have the weights {sorted(unknown)}")
    for theirs, ours, rows in places:
        value = weights[ours] if rows is None else weights[ours][slice(*rows)]
        scope, _, attribute = theirs.rpartition("/")
        layer = model_spec.index_spec(spec, scope)
        if attribute == "relative_position_keys":
            if theirs.startswith("decoder"):  # it is causal: rows of later positions are unused
                value = np.concatenate([value, np.zeros_like(value[1:])])
            layer.relative_position_values = np.zeros_like(value)
        setattr(layer, attribute, value)
    if settings.absent:
        projection = spec.decoder.projection
        if not settings.output_bias:
            projection.bias = np.zeros(len(projection.weight), np.float32)
        projection.bias[list(settings.absent)] += ABSENT_LOGIT
