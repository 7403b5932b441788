"""BERT (Devlin et al. 2019) and RoBERTa (Liu et al. 2019).

They differ in names, and RoBERTa does not use the first rows of its table of positions, up to and
including that of padding.
"""

import re
from collections.abc import Collection, Mapping
from functools import partial
from typing import Any, NamedTuple, Self

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
    BYTE_TOKENS,
    WORDPIECE_TOKENS,
    TokenizerFiles,
    read_byte_bpe,
    read_wordpiece,
    with_tokenizer_files,
)
from regard.exchange.tensor_table import (
    TensorEntry,
    TensorTable,
    linear_entries,
    stacked_entries,
    vocabulary_rows,
)
from regard.models.language.bert import BertSettings, RobertaSettings
from regard.text.build import Tokenizers
from regard.text.special_tokens import BOS, EOS, PAD, UNK
from regard.text.vocabulary_map import VocabularyMap

TASK = "masked-language-model"
MaskedSettings = BertSettings | RobertaSettings


class BertNames(NamedTuple):
    """Names and values in which BERT and RoBERTa differ."""

    model_type: str
    settings: type[BertSettings] | type[RobertaSettings]
    masked: str  # the class with an output layer for masked tokens
    bare: str  # the class without output layers
    prefix: str  # of the names of the encoder's tensors
    transform: str
    transform_norm: str
    bias: str
    decoder: str
    first_position: int  # in the table of positions: after the row of padding, or 0
    tokens: Mapping[str, str]  # special ones, if its tokenizer does not name them
    output_activation: str | None = None  # None: `hidden_act`

    def part(self, name: str) -> str:
        """The name of a part of the encoder."""
        return f"{self.prefix}{name}"

    def without_outputs(self) -> Self:
        """The names in files of the class without output layers."""
        return self._replace(prefix="")


BERT_NAMES = BertNames(
    "bert",
    BertSettings,
    "BertForMaskedLM",
    "BertModel",
    "bert.",
    "cls.predictions.transform.dense",
    "cls.predictions.transform.LayerNorm",
    "cls.predictions.bias",
    "cls.predictions.decoder",
    0,
    WORDPIECE_TOKENS,
)
ROBERTA_NAMES = BertNames(
    "roberta",
    RobertaSettings,
    "RobertaForMaskedLM",
    "RobertaModel",
    "roberta.",
    "lm_head.dense",
    "lm_head.layer_norm",
    "lm_head.bias",
    "lm_head.decoder",
    1,
    BYTE_TOKENS,
    "gelu",
)
PRETRAINING = "BertForPreTraining"
POOLER, NEXT_SENTENCE = "bert.pooler.dense.weight", "cls.seq_relationship.weight"


def _read(names: BertNames, folder: HfFolder) -> HfModel:
    allowed = [[names.masked], [names.bare]] + ([[PRETRAINING]] if names is BERT_NAMES else [])
    there = folder.tensor_names()
    config = folder.config_reader()
    config.require("architectures", allowed)
    outputs = {
        "tied": config.get("tie_word_embeddings", bool, True),
        "next_sentence": names is BERT_NAMES and {POOLER, NEXT_SENTENCE} <= there,
        "fills": folder.architecture != names.bare,
    }
    settings, tokenizers = read_encoder(names, folder, config, outputs)
    config.finish()
    groups = running_text_groups(TASK, tokenizers.source)
    return _model(names, settings, tokenizers, groups, there)


def read_encoder(
    names: BertNames, folder: HfFolder, config: ConfigReader, outputs: Mapping[str, Any]
) -> tuple[MaskedSettings, Tokenizers]:
    """The settings of an encoder, including those of its `outputs`, and its tokenizers."""
    config.require("position_embedding_type", ("absolute",), default="absolute")
    config.require("is_decoder", (False,), default=False)
    config.require("add_cross_attention", (False,), default=False)
    config.ignore("attention_probs_dropout_prob", "bos_token_id", "eos_token_id")
    config.ignore("directionality", "pooler_fc_size", "pooler_num_attention_heads")
    config.ignore("pooler_num_fc_layers", "pooler_size_per_head", "pooler_type")
    rows, is_bert = config.get("vocab_size", int), names is BERT_NAMES
    files = read_wordpiece(folder) if is_bert else read_byte_bpe(folder)
    named = files.special("pad_token", WORDPIECE_TOKENS["pad_token"]) if is_bert else None
    pad = config.get("pad_token_id", int, named)  # by which a RoBERTa counts positions
    first = pad + names.first_position if names.first_position else 0
    tokenizers, mask = _tokenizers(names, files, rows, pad)
    vocabulary = imported_vocabulary(tokenizers)
    segments = config.get("type_vocab_size", int)
    if outputs.get("next_sentence") and segments < 2:
        raise config.refusal("type_vocab_size", "texts told apart by segments need 2 or more")
    values = {
        "family": names.model_type,
        "layers": config.get("num_hidden_layers", int),
        "width": config.get("hidden_size", int),
        "heads": config.get("num_attention_heads", int),
        "feed_forward": config.get("intermediate_size", int),
        "context": config.get("max_position_embeddings", int) - first,
        "activation": config.activation("hidden_act"),
        "output_activation": names.output_activation,
        "dropout": config.get("hidden_dropout_prob", float, 0.1),
        "segments": segments,
        "norm_epsilon": config.get("layer_norm_eps", float),
        "first_position": first,
        "mask_id": vocabulary.ours[mask],
        **outputs,
    }
    return build_settings(names.settings, values, config.where), tokenizers


def _tokenizers(
    names: BertNames, files: TokenizerFiles, rows: int, pad: int
) -> tuple[Tokenizers, int]:
    """The tokenizers of a folder, and the folder's id of the mask token."""
    special = {role: files.special(role, name) for role, name in names.tokens.items()}
    mask = special["mask_token"]
    if mask is None or special["cls_token"] is None or special["sep_token"] is None:
        raise RunError(
            f"{files.folder.path}: its tokenizer has no {names.tokens['mask_token']}, or no tokens "
            "for the beginning and the end of a text, which a masked language model needs"
        )
    roles = [pad, special["unk_token"], special["cls_token"], special["sep_token"]]
    if names.first_position and pad in roles[1:]:
        raise RunError(
            f"{files.folder.path}: pad_token_id is {pad}, which its tokenizer has for another "
            "special token; positions of a RoBERTa are counted from its own padding"
        )
    tokenizer = files.build(roles, rows)
    if not 0 <= mask < rows or mask in roles:
        raise RunError(f"{files.folder.path}: its masked token has the id {mask}")
    return Tokenizers(tokenizer, tokenizer), mask


def _write(names: BertNames, settings: MaskedSettings, tokenizers: Tokenizers) -> HfModel:
    check_encoder(names, settings)
    wanted = names.output_activation or settings.activation
    if (settings.output_activation or settings.activation) != wanted:
        raise RunError(f"model.output_activation: {names.model_type} has {wanted} there")
    return with_tokenizer_files(_model(names, settings, tokenizers, {}, ()))


def check_encoder(names: BertNames, settings: MaskedSettings) -> None:
    """Raise a `RunError` that names a setting which their encoder does not have."""
    if settings.positions != "learned":
        raise RunError(
            f"model.positions: {settings.positions}: {names.model_type} of transformers has "
            "learned positions only"
        )
    if settings.mask_id is None:
        raise RunError(
            "model.mask_id: its mask token is not in its vocabulary, as transformers requires"
        )
    if not settings.segments:
        raise RunError("model.segments: 0: transformers needs at least one kind of segments")


def _model(
    names: BertNames,
    settings: MaskedSettings,
    tokenizers: Tokenizers,
    groups: dict[str, Any],
    there: Collection[str],
) -> HfModel:
    vocabulary = imported_vocabulary(tokenizers)
    architecture = PRETRAINING if settings.next_sentence else names.masked
    if not settings.fills:
        architecture, names = names.bare, names.without_outputs()
    config = encoder_config(names, settings, vocabulary)
    config |= {"architectures": [architecture], "tie_word_embeddings": settings.tied}
    return HfModel(
        architecture,
        config,
        settings,
        _table(names, settings, vocabulary),
        tokenizers,
        special_tokens=special_ids(settings, vocabulary),
        recipe=groups,
        present_name=partial(_present_name, names, settings.tied, frozenset(there)),
    )


def encoder_config(
    names: BertNames, settings: MaskedSettings, vocabulary: VocabularyMap
) -> dict[str, Any]:
    """The settings of an encoder for `config.json`."""
    pad = vocabulary.special[PAD]
    offset = names.first_position
    if offset and (pad is None or settings.first_position != pad + offset):
        raise RunError("RoBERTa's first position must follow the id of its padding")
    return {
        "model_type": names.model_type,
        "vocab_size": vocabulary.rows,
        "hidden_size": settings.width,
        "num_hidden_layers": settings.layers,
        "num_attention_heads": settings.heads,
        "intermediate_size": settings.feed_forward or 4 * settings.width,
        "max_position_embeddings": settings.context + settings.first_position,
        "type_vocab_size": settings.segments,
        "hidden_act": their_activation(settings.activation),
        "hidden_dropout_prob": settings.dropout,
        "attention_probs_dropout_prob": settings.dropout,
        "layer_norm_eps": settings.norm_epsilon,
        "pad_token_id": pad,
        "bos_token_id": vocabulary.special[BOS],
        "eos_token_id": vocabulary.special[EOS],
    }


def special_ids(settings: MaskedSettings, vocabulary: VocabularyMap) -> dict[str, int | None]:
    """Their ids of the special tokens, by role."""
    assert settings.mask_id is not None
    return {
        "pad_token": vocabulary.special[PAD],
        "unk_token": vocabulary.special[UNK],
        "cls_token": vocabulary.special[BOS],
        "sep_token": vocabulary.special[EOS],
        "mask_token": vocabulary.theirs[settings.mask_id],
    }


def _table(names: BertNames, settings: MaskedSettings, vocabulary: VocabularyMap) -> TensorTable:
    pooler = re.escape(names.part("pooler.dense.")) + "(weight|bias)"
    if not settings.fills:
        entries = encoder_entries(names, settings, vocabulary)
        return TensorTable(entries, unused=[constants(names), pooler])
    rows, one = vocabulary_rows(vocabulary), TensorEntry.single
    words = names.part("embeddings.word_embeddings.weight")
    decoder_bias = f"{names.decoder}.bias"
    entries = [
        *encoder_entries(names, settings, vocabulary),
        *linear_entries("transform", names.transform),
        *linear_entries("transform_norm", names.transform_norm),
        one("output_bias", names.bias if settings.tied else decoder_bias, rows),
    ]
    unused = [constants(names)]
    copies = {}
    if settings.tied:
        copies = {f"{names.decoder}.weight": words, decoder_bias: names.bias}
    else:
        entries.append(one("untied_output.weight", f"{names.decoder}.weight", rows))
        unused.append(re.escape(names.bias))  # the decoder's own bias is added instead
    if settings.next_sentence:
        entries += linear_entries("pooler", "bert.pooler.dense")
        entries += linear_entries("next_sentence", "cls.seq_relationship")
    else:
        unused.append(pooler)
    return TensorTable(entries, copies, unused)


def encoder_entries(
    names: BertNames, settings: MaskedSettings, vocabulary: VocabularyMap, prefix: str = ""
) -> list[TensorEntry]:
    """The tensors of an encoder; our names begin with `prefix`."""
    one, embeddings = TensorEntry.single, names.part("embeddings.")
    words = vocabulary_rows(vocabulary)
    entries = [
        one(f"{prefix}embedding.weight", f"{embeddings}word_embeddings.weight", words),
        one(f"{prefix}positions.table.weight", f"{embeddings}position_embeddings.weight"),
        one(f"{prefix}segments.weight", f"{embeddings}token_type_embeddings.weight"),
        *linear_entries(f"{prefix}norm", f"{embeddings}LayerNorm"),
    ]
    for n in range(settings.layers):
        theirs = names.part(f"encoder.layer.{n}")
        entries += _layer(f"{prefix}layers.{n}", theirs, settings.width)
    return entries


def constants(names: BertNames) -> str:
    """The pattern of constants in older files."""
    return re.escape(names.part("embeddings.")) + "(position|token_type)_ids"


def _layer(ours: str, theirs: str, width: int) -> list[TensorEntry]:
    projections = [f"{theirs}.attention.self.{name}" for name in ("query", "key", "value")]
    return [
        *stacked_entries(f"{ours}.own.project", projections, width),
        *linear_entries(f"{ours}.own.out", f"{theirs}.attention.output.dense"),
        *linear_entries(f"{ours}.around_own.norm", f"{theirs}.attention.output.LayerNorm"),
        *linear_entries(f"{ours}.feed.inner", f"{theirs}.intermediate.dense"),
        *linear_entries(f"{ours}.feed.outer", f"{theirs}.output.dense"),
        *linear_entries(f"{ours}.around_feed.norm", f"{theirs}.output.LayerNorm"),
    ]


def modern_name(name: str) -> str:
    """The name in newer files: the oldest ones call the parts of a norm gamma and beta."""
    return re.sub(r"\.gamma$", ".weight", re.sub(r"\.beta$", ".bias", name))


def _present_name(names: BertNames, tied: bool, there: Collection[str], name: str) -> str:
    """The name in newer files: the oldest ones have a single bias of the output layer. Files of
    only an encoder have names with or without the family's prefix.
    """
    name = modern_name(name)
    if not names.prefix:
        return name.removeprefix(f"{names.model_type}.")
    decoder_bias = f"{names.decoder}.bias"
    lone = not tied and name == names.bias and decoder_bias not in there
    return decoder_bias if lone else name


BERT, ROBERTA = (
    HfFamily(
        names.model_type, TASK, (names.model_type,), partial(_read, names), partial(_write, names)
    )
    for names in (BERT_NAMES, ROBERTA_NAMES)
)
