"""The encoder-decoder that Marian, Pegasus, M2M100, BART and mBART share, under several names."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from regard.errors import RunError
from regard.exchange.huggingface.config import ConfigReader, build_settings, their_activation
from regard.exchange.huggingface.family import HfFamily, HfModel
from regard.exchange.huggingface.folder import CONFIG, HfFolder, JsonObject
from regard.exchange.huggingface.translators.generation import (
    check_first_token,
    generation_settings,
    search_groups,
    search_notes,
    spacing_notes,
)
from regard.exchange.tensor_table import (
    TensorChange,
    TensorEntry,
    TensorTable,
    linear_entries,
    stacked_entries,
    vocabulary_rows,
)
from regard.models.translation.transformer_settings import TransformerSettings, per_side
from regard.settings import abbreviate
from regard.text.build import Tokenizers
from regard.text.segmentation import VERBATIM
from regard.text.special_tokens import PAD, UNK
from regard.text.vocabulary_map import MAX_ROWS, MIN_ROWS, VocabularyMap

SHARED = "model.shared.weight"
ENCODER, DECODER = "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"
OUTPUT, OUTPUT_BIAS = "lm_head.weight", "final_logits_bias"
EPSILON = 1e-5  # of all their layer norms; there is no setting for it
POSITIONS = 1024  # of their sentences, if the settings do not say

Values = dict[str, Any]


@dataclass(frozen=True)
class Seq2SeqClass:
    """A class of `transformers`, and our settings that it fixes."""

    model_type: str
    architecture: str
    fixed: Callable[[int], Values]
    """Their id of padding -> settings of our model."""
    has_output_bias: bool
    constants: tuple[str, ...] = ()
    """Patterns of tensors that a file may have but the class computes itself."""
    old_switches: Mapping[str, bool] | None = None
    """Switches of older files that the class no longer reads -> the values that it implies."""


def read_seq2seq(
    kind: Seq2SeqClass, folder: HfFolder, tokenizers: Tokenizers, *, separate: bool = False
) -> HfModel:
    """The model of a folder, given its tokenizers.

    `separate`: encoder and decoder have their own vocabularies and embeddings.
    """
    config = folder.config_reader()
    config.require("architectures", ([kind.architecture],), default=[kind.architecture])
    config.require("is_encoder_decoder", (True,), default=True)
    config.ignore("is_decoder")  # which changes nothing in a class that has an encoder
    config.ignore("encoder_layerdrop", "decoder_layerdrop", "init_std", "extra_pos_embeddings")
    config.ignore("bos_token_id", "num_hidden_layers", "vocab_size", "decoder_vocab_size")
    config.ignore("pad_token_id", "eos_token_id", "share_encoder_decoder_embeddings")
    for name, value in (kind.old_switches or {}).items():
        config.require(name, (value, None), default=value)
    _check_forced_bos(folder, config)
    vocabulary = require_map(tokenizers.target.vocabulary_map)
    pad = vocabulary.special[PAD]
    assert pad is not None  # `seq2seq_map` requires it
    fixed, names = kind.fixed(pad), folder.tensor_names()
    positions = config.get("max_position_embeddings", int, POSITIONS)
    if fixed.get("positions") == "learned":
        fixed["max_positions"] = positions
    tied = config.get("tie_word_embeddings", bool, True)
    settings = build_settings(
        TransformerSettings,
        {
            "encoder_layers": config.get("encoder_layers", int),
            "decoder_layers": config.get("decoder_layers", int),
            "width": config.get("d_model", int),
            **_per_side(config, "heads", "attention_heads"),
            **_per_side(config, "feed_forward", "ffn_dim"),
            "activation": config.activation("activation_function"),
            "scale_embeddings": config.get("scale_embedding", bool),
            "dropout": config.get("dropout", float, 0.1),
            "attention_dropout": config.get("attention_dropout", float, 0.0),
            "activation_dropout": config.get("activation_dropout", float, 0.0),
            "embeddings": _tying(names, tied=tied, separate=separate),
            "output_bias": kind.has_output_bias and OUTPUT_BIAS in names,
            "norm_epsilon": EPSILON,
            "absent": vocabulary.absent,
            "decoder_start": vocabulary.our_start,
            **fixed,
        },
        config.where,
    )
    config.finish()
    check_first_token(folder)
    table = seq2seq_table(kind, settings, tokenizers, names)
    groups = recipe_groups(folder, tokenizers, positions)
    described = describe(kind, settings, tokenizers, table, groups)
    notes = search_notes(folder, vocabulary, tokenizers.target.opening)
    notes += spacing_notes(folder, tokenizers.target)
    return replace(described, notes=tuple(notes))


def _check_forced_bos(folder: HfFolder, config: ConfigReader) -> None:
    """Refuse the old switch to begin answers with BOS, unless `forced_bos_token_id` is set."""
    named = generation_settings(folder).get("forced_bos_token_id") is not None
    config.require("force_bos_token_to_be_generated", (False, None, *([True] if named else [])))


def _per_side(config: ConfigReader, ours: str, theirs: str) -> dict[str, int | None]:
    encoder, decoder = (config.get(f"{stack}_{theirs}", int) for stack in ("encoder", "decoder"))
    return per_side(ours, encoder, decoder)


def _tying(names: Collection[str], *, tied: bool, separate: bool) -> str:
    """Which embeddings share a matrix; if they are not tied, by the names in the file."""
    if separate:
        return "target" if tied else "separate"
    if tied:
        return "shared"
    return "separate" if ENCODER in names and DECODER in names else "inputs"


def require_map(vocabulary: VocabularyMap | None) -> VocabularyMap:
    """The map; a `RunError` if there is none because the vocabulary was learned here."""
    if vocabulary is None:
        raise RunError("its vocabulary was learned here; only imported ones have a map")
    return vocabulary


def read_rows(folder: HfFolder, name: str, default: int | None = None) -> int:
    """How many tokens `config.json` says that a vocabulary has."""
    value = folder.config.get(name) or default
    if not isinstance(value, int) or not MIN_ROWS <= value <= MAX_ROWS:
        raise RunError(
            f"{folder.path / CONFIG}: {name} is {abbreviate(repr(value))}: must be a number of "
            f"tokens from {MIN_ROWS} to {MAX_ROWS:,}"
        )
    return value


def seq2seq_map(folder: HfFolder, unk: int | None, rows: int) -> VocabularyMap:
    """The map of a vocabulary of `rows` tokens, by the special ids of `config.json`.

    The token that the decoder starts from is our BOS, unless it is also PAD, UNK or EOS.
    """
    found = {}
    for name in ("pad_token_id", "eos_token_id", "decoder_start_token_id"):
        value = folder.config.get(name)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < rows:
            raise RunError(
                f"{folder.path / CONFIG}: {name} is {abbreviate(repr(value))}: it must be an id "
                f"below the vocabulary's size, {rows:,}"
            )
        found[name] = value
    pad, eos, start = found.values()
    if len({pad, eos, unk}) < len((pad, eos, unk)):
        raise RunError(
            f"{folder.path / CONFIG}: pad_token_id is {pad}, eos_token_id {eos}, and <unk> has the "
            f"id {unk} in the vocabulary: they must be different tokens"
        )
    bos = None if start in (pad, unk, eos) else start
    return VocabularyMap(special=(pad, unk, bos, eos), rows=rows, start=start)


def bias_rows(vocabulary: VocabularyMap) -> TensorChange:
    """The output layer's bias: theirs is (1, V), ours (V,)."""
    rows = vocabulary_rows(vocabulary)
    return TensorChange(
        lambda tensor: rows.to_ours(tensor.reshape(-1)),
        lambda tensor: rows.to_theirs(tensor)[None],
    )


def seq2seq_table(
    kind: Seq2SeqClass,
    settings: TransformerSettings,
    tokenizers: Tokenizers,
    names: Collection[str] = (),
) -> TensorTable:
    """The table of a model; `names` are those in a file, which may have a shared matrix under any
    of its names.
    """
    source, target = (require_map(one.vocabulary_map) for one in tokenizers)
    entries, copies, unused = _embeddings(settings, source, target, names)
    for stack, side in (("encoder", "source"), ("decoder", "target")):
        if settings.positions == "learned":
            positions = f"model.{stack}.embed_positions.weight"
            entries.append(TensorEntry.single(f"{side}_positions.table.weight", positions))
        if settings.embedding_norm:
            entries += linear_entries(f"{side}_norm", f"model.{stack}.layernorm_embedding")
        if settings.final_norm:
            entries += linear_entries(f"{stack}_norm", f"model.{stack}.layer_norm")
        for n in range(getattr(settings, f"{stack}_layers")):
            entries += _layer(f"{stack}.{n}", f"model.{stack}.layers.{n}", settings.width)
            if stack == "decoder":
                entries += _attention(
                    f"decoder.{n}.cross", f"model.decoder.layers.{n}.encoder_attn", settings.width
                )
                norm = f"model.decoder.layers.{n}.encoder_attn_layer_norm"
                entries += linear_entries(f"decoder.{n}.around_cross.norm", norm)
    return TensorTable(entries, copies, (*kind.constants, *unused))


def _embeddings(
    settings: TransformerSettings,
    source: VocabularyMap,
    target: VocabularyMap,
    names: Collection[str],
) -> tuple[list[TensorEntry], dict[str, str], list[str]]:
    """Entries of the embeddings and the output layer, their copies, and unused patterns."""
    one, tying = TensorEntry.single, settings.embeddings
    entries, copies, unused = list[TensorEntry](), dict[str, str](), list[str]()
    inputs, output = vocabulary_rows(source), vocabulary_rows(target)
    if tying in ("shared", "inputs"):
        equal = [SHARED, ENCODER, DECODER] + ([OUTPUT] if tying == "shared" else [])
        first = next((name for name in equal if name in names), SHARED)
        copies |= {name: first for name in equal if name != first}
        entries.append(one("embeddings.source", first, inputs))
    else:
        entries.append(one("embeddings.source", ENCODER, inputs))
        entries.append(one("embeddings.target", DECODER, output))
        unused.append(r"model\.shared\.weight")
    if tying in ("inputs", "separate"):
        entries.append(one("embeddings.output", OUTPUT, output))
    elif tying == "target":
        copies[OUTPUT] = DECODER
    if settings.output_bias:
        entries.append(one("embeddings.output_bias", OUTPUT_BIAS, bias_rows(target)))
    else:
        unused.append(OUTPUT_BIAS)  # a class that has it, without one in the file, adds zeros
    return entries, copies, unused


def _layer(ours: str, theirs: str, width: int) -> Iterator[TensorEntry]:
    yield from _attention(f"{ours}.own", f"{theirs}.self_attn", width)
    yield from linear_entries(f"{ours}.around_own.norm", f"{theirs}.self_attn_layer_norm")
    yield from linear_entries(f"{ours}.feed.inner", f"{theirs}.fc1")
    yield from linear_entries(f"{ours}.feed.outer", f"{theirs}.fc2")
    yield from linear_entries(f"{ours}.around_feed.norm", f"{theirs}.final_layer_norm")


def _attention(ours: str, theirs: str, width: int) -> Iterator[TensorEntry]:
    """Entries of an attention layer; ours projects queries, keys and values with one matrix."""
    yield from stacked_entries(f"{ours}.project", [f"{theirs}.{x}_proj" for x in "qkv"], width)
    yield from linear_entries(f"{ours}.out", f"{theirs}.out_proj")


def recipe_groups(folder: HfFolder, tokenizers: Tokenizers, positions: int) -> JsonObject:
    """The groups of a recipe: no corpus, sentences of at most `positions` tokens with EOS, and the
    search settings of the folder; texts are given to the model as they are.
    """
    joint = tokenizers.source is tokenizers.target
    sides = {"source": tokenizers.source, "target": None if joint else tokenizers.target}
    text = {name: one and one.settings.model_dump(mode="json") for name, one in sides.items()}
    return {
        "task": "translation",
        "corpus": {"imported": True},
        "text": {**text, "joint": joint},
        "training": {"max_tokens": max(1, positions - 1)},
        "decoding": search_groups(folder, require_map(tokenizers.target.vocabulary_map), positions),
        "input": VERBATIM.model_dump(mode="json"),
    }


def translator_sizes(settings: TransformerSettings) -> JsonObject:
    """The sizes of an encoder-decoder for `config.json`."""
    return {
        "d_model": settings.width,
        "encoder_layers": settings.encoder_layers,
        "decoder_layers": settings.decoder_layers,
        "encoder_attention_heads": settings.heads,
        "decoder_attention_heads": settings.of_decoder().heads,
        "encoder_ffn_dim": settings.feed_forward,
        "decoder_ffn_dim": settings.of_decoder().feed_forward,
    }


def describe(
    kind: Seq2SeqClass,
    settings: TransformerSettings,
    tokenizers: Tokenizers,
    table: TensorTable,
    groups: JsonObject,
) -> HfModel:
    """The model in the terms of `transformers` and in ours."""
    source, target = (require_map(one.vocabulary_map) for one in tokenizers)
    pad, _, _, eos = target.special
    own_target = settings.embeddings in ("target", "separate") and source.rows != target.rows
    positions = settings.max_positions or POSITIONS
    config = {
        "model_type": kind.model_type,
        "architectures": [kind.architecture],
        "is_encoder_decoder": True,
        "vocab_size": source.rows,
        **translator_sizes(settings),
        "activation_function": their_activation(settings.activation),
        "scale_embedding": settings.scale_embeddings,
        "dropout": settings.dropout,
        "attention_dropout": settings.attention_dropout,
        "activation_dropout": settings.activation_dropout,
        "max_position_embeddings": positions,
        "tie_word_embeddings": settings.embeddings in ("shared", "target"),
        "pad_token_id": pad,
        "eos_token_id": eos,
        "bos_token_id": None,
        "decoder_start_token_id": target.start,
        "forced_eos_token_id": eos,
    }
    if kind.model_type == "marian":
        config["share_encoder_decoder_embeddings"] = settings.embeddings in ("shared", "inputs")
        config["decoder_vocab_size"] = target.rows if own_target else source.rows
    roles = {"pad_token": pad, "eos_token": eos, "unk_token": target.special[UNK]}
    return HfModel(
        kind.architecture, config, settings, table, tokenizers, special_tokens=roles, recipe=groups
    )


def check_fixed(kind: Seq2SeqClass, settings: TransformerSettings, pad: int) -> None:
    """Raise a `RunError` that names a setting whose value the class does not support."""
    supported = {
        **kind.fixed(pad),
        "norm_epsilon": EPSILON,
        "bias": True,
        "window": None,
        "experts": None,
        "reach": None,
        "source_eos": True,
    }
    for name, value in supported.items():
        if (found := getattr(settings, name)) != value:
            raise RunError(
                f"model.{name}: {found}: transformers' class {kind.architecture} can only be "
                f"{value}"
            )
    if settings.output_bias and not kind.has_output_bias:
        raise RunError(f"model.output_bias: {kind.architecture} has no bias of the output layer")


def halved(settings: TransformerSettings, table: TensorTable) -> TensorTable:
    """The table for a model with interleaved sinusoids, in a class that has them in halves.

    The hidden dimensions (D) are permuted in the table, with every matrix and norm that reads or
    writes them, so that the model computes the same.
    """
    width = settings.width
    order = torch.tensor([*range(0, width, 2), *range(1, width, 2)])  # sines, then cosines
    back = order.argsort()

    def change(name: str, one: TensorChange) -> TensorChange:
        if name.endswith(("project.bias", "inner.bias", "output_bias")):
            return one
        reads = name.endswith(("project.weight", "inner.weight")) or name.startswith("embeddings.")
        dim = 1 if reads else 0
        return TensorChange(
            lambda tensor: one.to_ours(tensor).index_select(dim, back),
            lambda tensor: one.to_theirs(tensor.index_select(dim, order)),
        )

    entries = [
        entry._replace(
            parts=tuple(
                part._replace(change=change(entry.ours, part.change)) for part in entry.parts
            )
        )
        for entry in table.entries
    ]
    return table._replace(entries=entries)


def write_seq2seq(
    kind: Seq2SeqClass, settings: TransformerSettings, tokenizers: Tokenizers
) -> HfModel:
    """A model from our settings and vocabularies; a `RunError` if the class cannot express them."""
    pad = require_map(tokenizers.target.vocabulary_map).special[PAD]
    check_fixed(kind, settings, pad or 0)
    return describe(kind, settings, tokenizers, seq2seq_table(kind, settings, tokenizers), {})


def seq2seq_family(
    kind: Seq2SeqClass,
    read: Callable[[HfFolder], HfModel],
    write: Callable[[TransformerSettings, Tokenizers], HfModel],
) -> HfFamily:
    """The family of a class."""
    return HfFamily(kind.model_type, "translation", ("transformer",), read, write, searches=True)
