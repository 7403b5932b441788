"""Marian, of OPUS-MT (Tiedemann and Thottingal 2020): sinusoids in halves, a start from padding.

There are as many vocabularies as sides, or one; texts are cut by SentencePiece, and numbered by
`vocab.json`. A text for one of several languages begins with a tag, such as `>>de<<`.
"""

from typing import Any

from regard.errors import RunError
from regard.exchange.huggingface.family import HfModel
from regard.exchange.huggingface.folder import HfFolder
from regard.exchange.huggingface.piece_files import (
    TARGET_VOCABULARY,
    VOCABULARY,
    added_tokens,
    build_tokenizer,
    map_of,
    read_pieces,
    refuse_languages,
    special_tokens,
)
from regard.exchange.huggingface.seq2seq import Seq2SeqClass, read_seq2seq, seq2seq_family
from regard.text.build import Tokenizers
from regard.text.mapped_sentencepiece import PieceTable
from regard.text.tokenizer import Tokenizer

MODELS = ("source.spm", "target.spm")


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
        "extra_pos_embeddings": False,
    },
)


def _read(folder: HfFolder) -> HfModel:
    refuse_languages(folder)
    config = folder.config
    separate = config.get("share_encoder_decoder_embeddings") is False
    rows = _rows(folder, "vocab_size")
    target_rows = rows if not separate else _rows(folder, "decoder_vocab_size", rows)
    source_ids = read_pieces(folder, VOCABULARY)
    target_ids = read_pieces(folder, TARGET_VOCABULARY) if separate else source_ids
    sides = zip(MODELS, (source_ids, target_ids), (rows, target_rows), strict=True)
    tokenizers = Tokenizers(*(_tokenizer(folder, *side) for side in sides))
    return read_seq2seq(MARIAN_CLASS, folder, tokenizers, separate=separate)


def _tokenizer(folder: HfFolder, model: str, ids: dict[str, int], rows: int) -> Tokenizer:
    added = {name: i for name, i in added_tokens(folder).items() if ids.get(name, i) == i}
    special = tuple(dict.fromkeys([*special_tokens(folder).values(), *added]))
    table = PieceTable({**added, **ids}, special, tags=True)
    return build_tokenizer(folder, model, table, map_of(folder, ids, rows))


def _rows(folder: HfFolder, name: str, default: int | None = None) -> int:
    value = folder.config.get(name) or default
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= 1 << 24:
        raise RunError(
            f"{folder.path / 'config.json'}: {name} is {value!r}: must be a number of tokens"
        )
    return value


MARIAN = seq2seq_family(MARIAN_CLASS, _read)
