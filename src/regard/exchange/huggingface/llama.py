"""LLaMA (Touvron et al. 2023): RMS norms, rotary positions, SwiGLU, grouped-query attention.

Their rotary positions pair the two halves of a head, ours pair neighbours: rows are reordered.
"""

import math
from dataclasses import replace
from types import MethodType
from typing import Any

import torch
from torch import Tensor

from regard.attention.positions import Rotary, angles
from regard.errors import RunError
from regard.exchange.huggingface.config import ConfigReader, build_settings, their_activation
from regard.exchange.huggingface.family import (
    HfFamily,
    HfModel,
    imported_vocabulary,
    running_text_groups,
)
from regard.exchange.huggingface.folder import HfFolder
from regard.exchange.huggingface.tokenizer_files import (
    read_tokenizer_json,
    with_tokenizer_files,
)
from regard.exchange.huggingface.translators.generation import (
    continuation_groups,
    continuation_notes,
)
from regard.exchange.tensor_table import (
    StackedPart,
    TensorEntry,
    TensorTable,
    rotary_rows,
    vocabulary_rows,
)
from regard.models.language.gpt import GptSettings
from regard.text.build import Tokenizers
from regard.text.special_tokens import BOS, EOS, PAD, UNK
from regard.text.vocabulary_map import VocabularyMap

ARCHITECTURE = "LlamaForCausalLM"
TASK = "language-model"
DEFAULT_ROTARY_BASE = 10_000.0  # of `transformers`; the oldest files have none
UNUSED = (r"model\.layers\.\d+\.self_attn\.rotary_emb\.inv_freq",)  # constants of older files


def _read(folder: HfFolder) -> HfModel:
    config = folder.config_reader()
    config.require("architectures", ([ARCHITECTURE],))
    config.require("partial_rotary_factor", (1, 1.0), default=1.0)
    config.require("rope_interleaved", (False, None))  # of converters
    config.ignore("attention_dropout", "max_sequence_length", "is_llama_config")
    rows = config.get("vocab_size", int)
    files = read_tokenizer_json(folder)
    ids = {name: config.optional(f"{name}_token_id", int) for name in ("pad", "bos", "eos")}
    bos, eos = (
        files.special(f"{name}_token") if ids[name] is None else ids[name]
        for name in ("bos", "eos")
    )
    pad = ids["pad"] if (ids["pad"] or 0) >= 0 else None  # some files say -1
    tokenizer = files.build([pad, files.special("unk_token"), bos, eos], rows)
    tokenizers = Tokenizers(tokenizer, tokenizer)
    heads, width = config.get("num_attention_heads", int), config.get("hidden_size", int)
    head_width = config.optional("head_dim", int)
    settings = build_settings(
        GptSettings,
        {
            "layers": config.get("num_hidden_layers", int),
            "width": width,
            "heads": heads,
            "kv_heads": config.get("num_key_value_heads", int, heads),
            "head_width": None if head_width and head_width * heads == width else head_width,
            "feed_forward": config.get("intermediate_size", int),
            "context": config.get("max_position_embeddings", int),
            "positions": "rotary",
            **_rotary(config),
            "norm": "rms",
            "norm_epsilon": config.get("rms_norm_eps", float),
            **_activation(config.activation("hidden_act")),
            "dropout": 0.0,
            "bias": config.get("attention_bias", bool, False),
            "feed_forward_bias": config.get("mlp_bias", bool, False),
            "tied": config.get("tie_word_embeddings", bool),
            "absent": imported_vocabulary(tokenizers).absent,
        },
        config.where,
    )
    config.finish()
    vocabulary, notes = imported_vocabulary(tokenizers), _length_notes(folder, settings.context)
    groups = running_text_groups(TASK, tokenizer)
    groups["decoding"] = continuation_groups(folder, vocabulary)
    described = _model(settings, tokenizers, groups)
    return replace(described, notes=(*notes, *continuation_notes(folder, vocabulary)))


def _activation(name: str) -> dict[str, Any]:
    return {"activation": "swiglu"} if name == "silu" else {"activation": name, "gated": True}


def _rotary(config: ConfigReader) -> dict[str, Any]:
    """The settings of the angles, which newer files have in a group."""
    base = config.get("rope_theta", float, DEFAULT_ROTARY_BASE)
    older, group = config.group("rope_scaling"), config.group("rope_parameters")
    group = older or group
    if group is None:
        return {"rotary_base": base}
    group.require("partial_rotary_factor", (1, 1.0), default=1.0)
    base = group.get("rope_theta", float, base)
    kind = group.get("rope_type", str, group.get("type", str, "default"))
    group.require("rope_type", ("default", DYNAMIC, *STRETCHES, None))
    group.require("type", ("default", DYNAMIC, *STRETCHES, None))
    if kind == DYNAMIC:  # up to its positions it is as the default
        group.ignore("factor", "original_max_position_embeddings")
    stretch = None
    if kind in STRETCHES:
        stretch = STRETCHES[kind](group, config.get("max_position_embeddings", int))
    group.finish()
    return {"rotary_base": base, "rotary_stretch": stretch and {"kind": kind, **stretch}}


def _length_notes(folder: HfFolder, positions: int) -> list[str]:
    """What `transformers` does with texts beyond the positions of a model, and we do not."""
    groups = (folder.config.get(name) or {} for name in ("rope_scaling", "rope_parameters"))
    if not any(DYNAMIC in (one.get("rope_type"), one.get("type")) for one in groups):
        return []
    return [
        f"rope_type is {DYNAMIC}: transformers reads a text of more than {positions:,} tokens with "
        "other angles, which are not supported here"
    ]


def _linear(group: ConfigReader, longest: int) -> dict[str, Any]:
    return {"factor": group.get("factor", float)}


def _llama3(group: ConfigReader, longest: int) -> dict[str, Any]:
    return {
        "factor": group.get("factor", float),
        "slow": group.get("low_freq_factor", float),
        "fast": group.get("high_freq_factor", float),
        "trained": group.get("original_max_position_embeddings", int, longest),
    }


def _yarn(group: ConfigReader, longest: int) -> dict[str, Any]:
    trained = group.get("original_max_position_embeddings", int, longest)
    factor = group.get("factor", float, longest / trained)
    scales = [group.get(name, float, 0.0) for name in ("mscale", "mscale_all_dim")]
    over, under = scales if all(scales) else (1.0, 0.0)
    growth = 0.1 * math.log(factor) if factor > 1 else 0.0
    return {
        "factor": factor,
        "slow": group.get("beta_slow", float, 1.0),
        "fast": group.get("beta_fast", float, 32.0),
        "trained": trained,
        "rounded": group.get("truncate", bool, True),
        "magnitude": group.get(
            "attention_factor", float, (over * growth + 1) / (under * growth + 1)
        ),
    }


DYNAMIC = "dynamic"
STRETCHES = {"linear": _linear, "llama3": _llama3, "yarn": _yarn}
"""Kinds of changed frequencies -> how they are read; others depend on the length of the text."""


def _rope_parameters(settings: GptSettings) -> dict[str, Any]:
    """The group for `config.json`."""
    one = settings.rotary_stretch
    group: dict[str, Any] = {"rope_theta": settings.rotary_base}
    if one is None:
        return {**group, "rope_type": "default"}
    group |= {"rope_type": one.kind, "factor": one.factor}
    if one.kind == "linear":
        return group
    group["original_max_position_embeddings"] = one.trained
    if one.kind == "llama3":
        return {**group, "low_freq_factor": one.slow, "high_freq_factor": one.fast}
    own = {"beta_slow": one.slow, "beta_fast": one.fast, "truncate": one.rounded}
    return {**group, **own, "attention_factor": one.magnitude}


def _write(settings: GptSettings, tokenizers: Tokenizers) -> HfModel:
    gated = settings.gated or settings.activation == "swiglu"
    wanted = {"norm": "rms", "positions": "rotary", "scale_scores": True, "scale_by_layer": False}
    for name, value in {**wanted, "gated": True}.items():
        found = gated if name == "gated" else getattr(settings, name)
        if found != value:
            raise RunError(f"model.{name}: {found}: LLaMA of transformers has only {value}")
    return with_tokenizer_files(_model(settings, tokenizers, {}))


def _model(settings: GptSettings, tokenizers: Tokenizers, groups: dict[str, Any]) -> HfModel:
    vocabulary = imported_vocabulary(tokenizers)
    config = {
        "model_type": "llama",
        "architectures": [ARCHITECTURE],
        "vocab_size": vocabulary.rows,
        "hidden_size": settings.width,
        "intermediate_size": settings.feed_forward or 4 * settings.width,
        "num_hidden_layers": settings.layers,
        "num_attention_heads": settings.heads,
        "num_key_value_heads": settings.kv_heads or settings.heads,
        "head_dim": _head_width(settings),
        "max_position_embeddings": settings.context,
        "rope_parameters": _rope_parameters(settings),
        "rms_norm_eps": settings.norm_epsilon or torch.finfo(torch.float32).eps,
        "hidden_act": their_activation(
            "silu" if settings.activation == "swiglu" else settings.activation
        ),
        "attention_bias": settings.bias,
        "mlp_bias": _feed_forward_bias(settings),
        "tie_word_embeddings": settings.tied,
        "pad_token_id": vocabulary.special[PAD],
        "bos_token_id": vocabulary.special[BOS],
        "eos_token_id": vocabulary.special[EOS],
    }
    special = {
        "pad_token": vocabulary.special[PAD],
        "unk_token": vocabulary.special[UNK],
        "bos_token": vocabulary.special[BOS],
        "eos_token": vocabulary.special[EOS],
    }
    return HfModel(
        ARCHITECTURE,
        config,
        settings,
        _table(settings, vocabulary),
        tokenizers,
        special_tokens=special,
        recipe=groups,
    )


def _head_width(settings: GptSettings) -> int:
    return settings.head_width or settings.width // settings.heads


def _feed_forward_bias(settings: GptSettings) -> bool:
    return settings.bias if settings.feed_forward_bias is None else settings.feed_forward_bias


def _table(settings: GptSettings, vocabulary: VocabularyMap) -> TensorTable:
    rows, one = vocabulary_rows(vocabulary), TensorEntry.single
    entries = [
        one("embedding.weight", "model.embed_tokens.weight", rows),
        one("last.norm.weight", "model.norm.weight"),
    ]
    for n in range(settings.layers):
        entries += _layer(f"layers.{n}", f"model.layers.{n}", settings)
    if settings.tied:
        return TensorTable(entries, {"lm_head.weight": "model.embed_tokens.weight"}, UNUSED)
    entries.append(one("untied_output.weight", "lm_head.weight", rows))
    return TensorTable(entries, unused=UNUSED)


def _layer(ours: str, theirs: str, settings: GptSettings) -> list[TensorEntry]:
    one, attention, feed = TensorEntry.single, f"{theirs}.self_attn", f"{theirs}.mlp"
    kv_heads = settings.kv_heads or settings.heads
    queries, keys = (heads * _head_width(settings) for heads in (settings.heads, kv_heads))
    hidden = settings.feed_forward or 4 * settings.width
    entries = [
        one(f"{ours}.around_own.norm.weight", f"{theirs}.input_layernorm.weight"),
        one(f"{ours}.around_feed.norm.weight", f"{theirs}.post_attention_layernorm.weight"),
    ]
    for kind in ("weight", "bias") if settings.bias else ("weight",):
        projections = (
            StackedPart(f"{attention}.q_proj.{kind}", queries, rotary_rows(settings.heads)),
            StackedPart(f"{attention}.k_proj.{kind}", keys, rotary_rows(kv_heads)),
            StackedPart(f"{attention}.v_proj.{kind}", keys),
        )
        entries.append(TensorEntry(f"{ours}.own.project.{kind}", projections))
        entries.append(one(f"{ours}.own.out.{kind}", f"{attention}.o_proj.{kind}"))
    for kind in ("weight", "bias") if _feed_forward_bias(settings) else ("weight",):
        names = (f"{feed}.{name}.{kind}" for name in ("gate_proj", "up_proj"))
        gates = tuple(StackedPart(name, hidden) for name in names)
        entries.append(TensorEntry(f"{ours}.feed.inner.{kind}", gates))
        entries.append(one(f"{ours}.feed.outer.{kind}", f"{feed}.down_proj.{kind}"))
    return entries


def _to_float64(peer: Any) -> None:
    """Compute norms and angles in float64: their modules always use float32."""
    for module in peer.modules():
        if type(module).__name__ == "LlamaRMSNorm":
            module.forward = MethodType(_rms_norm, module)
        if type(module).__name__ == "LlamaRotaryEmbedding":
            module.forward = MethodType(_rotary_angles, module)


def _rms_norm(module: Any, x: Tensor) -> Tensor:
    scale = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + module.variance_epsilon)
    normed: Tensor = module.weight * (x * scale)
    return normed


def _rotary_angles(module: Any, x: Tensor, position_ids: Tensor) -> tuple[Tensor, Tensor]:
    """cos and sin of p / base^(2i/K), each repeated side by side: (B, T, K)."""
    config = ConfigReader(module.config.to_dict(), "config.json")
    found = GptSettings(positions="rotary", **_rotary(config))
    rotary = Rotary(found.rotary_base, found.rotary_stretch)
    phases = angles(position_ids, 2 * len(module.inv_freq), dtype=x.dtype, rotary=rotary)
    both = torch.cat([phases, phases], -1)
    magnitude = found.rotary_stretch.magnitude if found.rotary_stretch else 1.0
    return both.cos() * magnitude, both.sin() * magnitude


LLAMA = HfFamily("llama", TASK, ("gpt",), _read, _write, _to_float64)
