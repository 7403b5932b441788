"""BART (Lewis et al. 2020) and mBART (Liu et al. 2020; Tang et al. 2020).

Learned positions start at the third row of their table; embeddings are normalised. BART is
post-norm; mBART is pre-norm, with one more norm at the end.
"""

from typing import Any

from regard.exchange.huggingface.family import HfModel
from regard.exchange.huggingface.folder import HfFolder
from regard.exchange.huggingface.translators.language_tokens import (
    read_language_tokenizers,
    write_with_languages,
)
from regard.exchange.huggingface.translators.seq2seq import (
    Seq2SeqClass,
    read_seq2seq,
    seq2seq_family,
)
from regard.models.translation.transformer_settings import TransformerSettings
from regard.text.build import Tokenizers

FIRST_POSITION = 2  # earlier rows were special positions in fairseq


def _fixed_bart(pad: int) -> dict[str, Any]:
    return {
        "norm": "post",
        "final_norm": False,
        "positions": "learned",
        "first_position": FIRST_POSITION,
        "embedding_norm": True,
    }


def _fixed_mbart(pad: int) -> dict[str, Any]:
    return {**_fixed_bart(pad), "norm": "pre", "final_norm": True}


BART_CLASS = Seq2SeqClass(
    "bart",
    "BartForConditionalGeneration",
    _fixed_bart,
    has_output_bias=True,
    old_switches={
        "normalize_before": False,
        "normalize_embedding": True,
        "add_final_layer_norm": False,
        "static_position_embeddings": False,
        "add_bias_logits": False,
    },
)
MBART_CLASS = Seq2SeqClass(
    "mbart",
    "MBartForConditionalGeneration",
    _fixed_mbart,
    has_output_bias=True,
    old_switches={
        "normalize_before": True,
        "normalize_embedding": True,
        "add_final_layer_norm": True,
        "static_position_embeddings": False,
        "add_bias_logits": False,
    },
)


def _read_bart(folder: HfFolder) -> HfModel:
    return read_seq2seq(BART_CLASS, folder, read_language_tokenizers(folder))


def _read_mbart(folder: HfFolder) -> HfModel:
    return read_seq2seq(MBART_CLASS, folder, read_language_tokenizers(folder))


def _write_bart(settings: TransformerSettings, tokenizers: Tokenizers) -> HfModel:
    return write_with_languages(BART_CLASS, settings, tokenizers)


def _write_mbart(settings: TransformerSettings, tokenizers: Tokenizers) -> HfModel:
    return write_with_languages(MBART_CLASS, settings, tokenizers)


BART = seq2seq_family(BART_CLASS, _read_bart, _write_bart)
MBART = seq2seq_family(MBART_CLASS, _read_mbart, _write_mbart)
