"""Marian, of OPUS-MT (Tiedemann and Thottingal 2020): sinusoids in halves; PAD begins a target.

The sides share a vocabulary, or have one each. SentencePiece splits texts into pieces, and
`vocab.json` has their ids. A text for one of several languages begins with a tag, such as `>>de<<`.
"""

from dataclasses import replace
from typing import Any

from regard.errors import RunError
from regard.exchange.huggingface.family import HfModel
from regard.exchange.huggingface.folder import HfFolder
from regard.exchange.huggingface.translators.own_vocabulary import MODELS, as_mapped, marian_files
from regard.exchange.huggingface.translators.piece_files import (
    TARGET_VOCABULARY,
    VOCABULARY,
    added_tokens,
    build_tokenizer,
    map_of,
    read_pieces,
    refuse_languages,
    special_tokens,
)
from regard.exchange.huggingface.translators.seq2seq import (
    Seq2SeqClass,
    halved,
    read_rows,
    read_seq2seq,
    seq2seq_family,
    write_seq2seq,
)
from regard.models.translation.transformer_settings import TransformerSettings
from regard.text.build import Tokenizers
from regard.text.mapped_sentencepiece import PieceTable
from regard.text.tokenizer import Tokenizer

FLOAT32_TOLERANCE = 1e-4


def _fixed(pad: int) -> dict[str, Any]:
    return {
        "norm": "post",
        "final_norm": False,
        "positions": "sinusoid",
        "sinusoids": "halves",
        "first_position": 0,
        "embedding_norm": False,
    }


MARIAN_CLASS = Seq2SeqClass(
    "marian",
    "MarianMTModel",
    _fixed,
    has_output_bias=True,
    constants=(r"model\.(encoder|decoder)\.embed_positions\.weight",),
    old_switches={
        "normalize_before": False,
        "normalize_embedding": False,
        "add_final_layer_norm": False,
        "add_bias_logits": False,
        "static_position_embeddings": True,
    },
)


def _fixed_pegasus(pad: int) -> dict[str, Any]:
    return {**_fixed(pad), "norm": "pre", "final_norm": True}


PEGASUS_CLASS = Seq2SeqClass(
    "pegasus",
    "PegasusForConditionalGeneration",
    _fixed_pegasus,
    has_output_bias=True,
    constants=MARIAN_CLASS.constants,
    old_switches={
        "normalize_before": True,
        "normalize_embedding": False,
        "add_final_layer_norm": True,
        "add_bias_logits": False,
        "static_position_embeddings": True,
    },
)
"""Marian with pre-norm layers is Pegasus (Zhang et al. 2020): our pre-norm models are exported as
Pegasus with Marian's tokenizer."""


def _read(folder: HfFolder) -> HfModel:
    return _read_as(MARIAN_CLASS, folder)


def _read_pegasus(folder: HfFolder) -> HfModel:
    return _read_as(PEGASUS_CLASS, folder)


def _read_as(kind: Seq2SeqClass, folder: HfFolder) -> HfModel:
    refuse_languages(folder)
    config = folder.config
    separate = config.get("share_encoder_decoder_embeddings") is False
    rows = read_rows(folder, "vocab_size")
    target_rows = rows if not separate else read_rows(folder, "decoder_vocab_size", rows)
    source_ids = read_pieces(folder, VOCABULARY)
    target_ids = read_pieces(folder, TARGET_VOCABULARY) if separate else source_ids
    sides = zip(MODELS, (source_ids, target_ids), (rows, target_rows), strict=True)
    tokenizers = Tokenizers(*(_tokenizer(folder, *side) for side in sides))
    return read_seq2seq(kind, folder, tokenizers, separate=separate)


def _tokenizer(folder: HfFolder, model: str, ids: dict[str, int], rows: int) -> Tokenizer:
    added = {name: i for name, i in added_tokens(folder).items() if ids.get(name, i) == i}
    special = tuple(dict.fromkeys([*special_tokens(folder).values(), *added]))
    table = PieceTable({**added, **ids}, special, tags=True)
    return build_tokenizer(folder, model, table, map_of(folder, ids, rows))


def _write(settings: TransformerSettings, tokenizers: Tokenizers) -> HfModel:
    return _write_as(MARIAN_CLASS, settings, tokenizers)


def _write_pegasus(settings: TransformerSettings, tokenizers: Tokenizers) -> HfModel:
    if not tokenizers.joint:
        raise RunError(f"text.joint: false: {PEGASUS_CLASS.architecture} has one vocabulary")
    return _write_as(PEGASUS_CLASS, settings, tokenizers)


def _write_as(kind: Seq2SeqClass, settings: TransformerSettings, tokenizers: Tokenizers) -> HfModel:
    """A model from our settings, imported or trained here; interleaved sinusoids are reordered."""
    reordered = settings.positions == "sinusoid" and settings.sinusoids == "interleaved"
    exported = settings.model_copy(update={"sinusoids": "halves"}) if reordered else settings
    mapped = as_mapped(tokenizers, settings.decoder_start)
    described = write_seq2seq(kind, exported, mapped)
    separate = settings.embeddings in ("target", "separate")
    if separate and tokenizers.joint:
        raise RunError(
            f"model.embeddings: {settings.embeddings}: {kind.architecture} has one matrix for both "
            "sides of one vocabulary"
        )
    table = halved(settings, described.table) if reordered else described.table
    files = marian_files(mapped, separate=separate)
    # our angles are rounded to float32, and theirs are not
    float64 = FLOAT32_TOLERANCE if reordered else None
    return replace(described, table=table, files=files, float64_tolerance=float64)


MARIAN = seq2seq_family(MARIAN_CLASS, _read, _write)
PEGASUS = seq2seq_family(PEGASUS_CLASS, _read_pegasus, _write_pegasus)
