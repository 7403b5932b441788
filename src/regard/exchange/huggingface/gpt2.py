"""GPT-2 (Radford et al. 2019): `transformers` has its matrices transposed (`Conv1D`)."""

import re
from dataclasses import replace
from typing import Any

from regard.errors import RunError
from regard.exchange.huggingface.config import build_settings, their_activation
from regard.exchange.huggingface.family import (
    HfFamily,
    HfModel,
    imported_vocabulary,
    running_text_groups,
)
from regard.exchange.huggingface.folder import HfFolder
from regard.exchange.huggingface.tokenizer_files import read_byte_bpe, with_tokenizer_files
from regard.exchange.huggingface.translators.generation import (
    continuation_groups,
    continuation_notes,
)
from regard.exchange.tensor_table import (
    SAME,
    TRANSPOSED,
    TensorEntry,
    TensorTable,
    vocabulary_rows,
)
from regard.models.language.gpt import GptSettings
from regard.text.build import Tokenizers
from regard.text.special_tokens import EOS, PAD
from regard.text.vocabulary_map import VocabularyMap

ARCHITECTURE = "GPT2LMHeadModel"
PREFIX = "transformer."
UNUSED = (
    r"transformer\.h\.\d+\.attn\.(bias|masked_bias)",  # causal masks of older files
    r"transformer\.h\.\d+\.(crossattention|ln_cross_attn)\..*",
)


def _read(folder: HfFolder) -> HfModel:
    config = folder.config_reader()
    config.require("architectures", ([ARCHITECTURE], ["GPT2Model"]), default=[ARCHITECTURE])
    config.get("add_cross_attention", bool, False)  # its layers are used only with an encoder
    config.require("is_decoder", (False, True), default=False)
    config.ignore("reorder_and_upcast_attn", "n_ctx", "attn_pdrop", "embd_pdrop", "summary_type")
    config.ignore("summary_activation", "summary_first_dropout", "summary_use_proj")
    config.ignore("summary_proj_to_labels", "bos_token_id", "pad_token_id")
    width, rows = config.get("n_embd", int), config.get("vocab_size", int)
    files = read_byte_bpe(folder)
    eos = config.optional("eos_token_id", int)
    eos = files.special("eos_token") if eos is None else eos
    tokenizer = files.build([files.special("pad_token"), None, None, eos], rows)
    tokenizers = Tokenizers(tokenizer, tokenizer)
    vocabulary = imported_vocabulary(tokenizers)
    settings = build_settings(
        GptSettings,
        {
            "layers": config.get("n_layer", int),
            "width": width,
            "heads": config.get("n_head", int),
            "feed_forward": config.optional("n_inner", int),
            "context": config.get("n_positions", int),
            "activation": config.activation("activation_function"),
            "dropout": config.get("resid_pdrop", float, 0.1),
            "norm_epsilon": config.get("layer_norm_epsilon", float),
            "scale_scores": config.get("scale_attn_weights", bool, True),
            "scale_by_layer": config.get("scale_attn_by_inverse_layer_idx", bool, False),
            "tied": config.get("tie_word_embeddings", bool, True),
            "absent": vocabulary.absent,
        },
        config.where,
    )
    config.finish()
    groups = running_text_groups("language-model", tokenizer)
    groups["decoding"] = continuation_groups(folder, vocabulary)
    described = _model(settings, tokenizers, vocabulary, groups)
    return replace(described, notes=tuple(continuation_notes(folder, vocabulary)))


def _write(settings: GptSettings, tokenizers: Tokenizers) -> HfModel:
    for name in ("head_width", "feed_forward_bias"):
        if getattr(settings, name) is not None:
            raise RunError(f"model.{name}: {getattr(settings, name)}: GPT-2 has no such setting")
    if (settings.norm, settings.positions) != ("layer", "learned") or not settings.bias:
        raise RunError("GPT-2 has only layer norms, learned positions and biases")
    if settings.gated:
        raise RunError("model.gated: true: GPT-2 has no gates")
    return with_tokenizer_files(_model(settings, tokenizers, imported_vocabulary(tokenizers), {}))


def _model(
    settings: GptSettings, tokenizers: Tokenizers, vocabulary: VocabularyMap, groups: dict[str, Any]
) -> HfModel:
    eos = vocabulary.special[EOS]
    config = {
        "model_type": "gpt2",
        "architectures": [ARCHITECTURE],
        "vocab_size": vocabulary.rows,
        "n_embd": settings.width,
        "n_layer": settings.layers,
        "n_head": settings.heads,
        "n_inner": settings.feed_forward,
        "n_positions": settings.context,
        "activation_function": their_activation(settings.activation),
        "layer_norm_epsilon": settings.norm_epsilon or 1e-5,
        "scale_attn_weights": settings.scale_scores,
        "scale_attn_by_inverse_layer_idx": settings.scale_by_layer,
        "tie_word_embeddings": settings.tied,
        "resid_pdrop": settings.dropout,
        "embd_pdrop": settings.dropout,
        "attn_pdrop": settings.dropout,
        "bos_token_id": eos,
        "eos_token_id": eos,
    }
    roles = {"eos_token": eos, "bos_token": eos, "pad_token": vocabulary.special[PAD]}
    return HfModel(
        ARCHITECTURE,
        config,
        settings,
        _table(settings, vocabulary),
        tokenizers,
        special_tokens=roles,
        recipe=groups,
        present_name=_present_name,
    )


def _table(settings: GptSettings, vocabulary: VocabularyMap) -> TensorTable:
    rows = vocabulary_rows(vocabulary)
    one = TensorEntry.single
    entries = [
        one("embedding.weight", "transformer.wte.weight", rows),
        one("positions.table.weight", "transformer.wpe.weight"),
        one("last.norm.weight", "transformer.ln_f.weight"),
        one("last.norm.bias", "transformer.ln_f.bias"),
    ]
    for n in range(settings.layers):
        linears = {
            "own.project": "attn.c_attn",
            "own.out": "attn.c_proj",
            "feed.inner": "mlp.c_fc",
            "feed.outer": "mlp.c_proj",
        }
        norms = {"around_own.norm": "ln_1", "around_feed.norm": "ln_2"}
        for ours, theirs in (linears | norms).items():
            change = TRANSPOSED if ours in linears else SAME
            names = f"layers.{n}.{ours}", f"transformer.h.{n}.{theirs}"
            entries.append(one(f"{names[0]}.weight", f"{names[1]}.weight", change))
            entries.append(one(f"{names[0]}.bias", f"{names[1]}.bias"))
    copies = {}
    if settings.tied:
        copies["lm_head.weight"] = "transformer.wte.weight"
    else:
        entries.append(one("untied_output.weight", "lm_head.weight", rows))
    return TensorTable(entries, copies, UNUSED)


def _present_name(name: str) -> str:
    """The name with a prefix, which files of `GPT2Model`, such as the oldest ones, lack."""
    has_prefix = re.match(r"transformer\.|lm_head\.", name)
    return name if has_prefix else f"{PREFIX}{name}"


GPT2 = HfFamily("gpt2", "language-model", ("gpt",), _read, _write)
