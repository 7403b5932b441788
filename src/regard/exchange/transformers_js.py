"""Files that transformers.js (`@huggingface/transformers`) reads with a translator's graphs.

Ids are ours, as in the graphs. The tokenizer has the format of the library `tokenizers`, which
transformers.js reads too.
"""

from collections.abc import Iterator
from typing import Any

import sentencepiece

from regard.errors import RunError
from regard.exchange.huggingface.translators.seq2seq import translator_sizes
from regard.models.translation.transformer_settings import TransformerSettings
from regard.text.build import Tokenizers
from regard.text.special_tokens import BOS, EOS, PAD, SPECIAL_PIECES, UNK
from regard.text.tokenizer import Tokenizer

FAMILIES = ("transformer",)  # their states are only keys and values
SPACE, ESCAPE, UNDERSCORE = "▁", "\ufdd0", "\ufdd1"  # as in `SentencePieceTokenizer`
HELD = ("\ufdd2", "\ufdd3")  # placeholders for escaped characters while others are replaced
NORMALIZERS = {"none": [], "nfc": [{"type": "NFC"}], "nfkc": [{"type": "NFKC"}]}
DTYPES = {"float32": "fp32", "int8": "q8"}
"""Names of precisions in transformers.js."""
SUFFIXES = {"float32": "", "int8": "_quantized"}
"""Ends of the names of its files, by precision."""


def require_browser_kind(family: str, task: str, tokenizers: Tokenizers | None) -> None:
    """Raise a `RunError` if transformers.js cannot run a model of this kind."""
    if task != "translation" or tokenizers is None:
        raise RunError(f"task: {task}: files for transformers.js are only written for translators")
    if family not in FAMILIES:
        raise RunError(f"model.family: {family}: transformers.js needs caches of keys and values")
    if tokenizers.source.vocabulary_map is not None:
        raise RunError("its vocabulary was imported: use the tokenizer of the original model")
    if tokenizers.source is not tokenizers.target:
        raise RunError("text.joint: false: transformers.js has one tokenizer for both sides")
    settings = tokenizers.source.settings
    if settings.kind != "bpe" or settings.byte_level:
        kind = "byte_level" if settings.byte_level else f"kind: {settings.kind}"
        raise RunError(
            f"text.source.{kind}: only SentencePiece's bpe works the same in transformers.js"
        )
    if settings.lowercase or settings.symbols:
        name = "lowercase" if settings.lowercase else "symbols"
        raise RunError(f"text.source.{name}: transformers.js does not support this")


def config_json(settings: TransformerSettings, size: int, precision: str) -> dict[str, Any]:
    """`config.json` of a Transformer with `size` tokens, which is run as a Marian model.

    Only the graphs decide what is computed. Marian's switches show where the model differs from it,
    and `regard` has all settings.
    """
    sinusoids = settings.positions == "sinusoid"
    return {
        "model_type": "marian",
        "architectures": ["MarianMTModel"],
        "is_encoder_decoder": True,
        "vocab_size": size,
        **translator_sizes(settings),
        "activation_function": settings.activation,
        "scale_embedding": settings.scale_embeddings,
        "normalize_before": settings.norm == "pre",
        "add_final_layer_norm": settings.final_norm,
        "normalize_embedding": settings.embedding_norm,
        "static_position_embeddings": sinusoids,
        "max_position_embeddings": settings.max_positions or 1024,
        "pad_token_id": PAD,
        "eos_token_id": EOS,
        "bos_token_id": BOS,
        "decoder_start_token_id": BOS,
        "transformers.js_config": {"dtype": DTYPES[precision]},
        "regard": settings.model_dump(mode="json"),
    }


def tokenizer_config() -> dict[str, Any]:
    """`tokenizer_config.json`."""
    roles = {"pad_token": PAD, "unk_token": UNK, "bos_token": BOS, "eos_token": EOS}
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": False,
        **{role: SPECIAL_PIECES[i] for role, i in roles.items()},
    }


def tokenizer_json(tokenizer: Tokenizer) -> dict[str, Any]:
    """`tokenizer.json` of a BPE that SentencePiece learned here."""
    processor = sentencepiece.SentencePieceProcessor(model_proto=tokenizer.content)
    pieces = [processor.id_to_piece(i) for i in range(tokenizer.size)]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {
                "id": i,
                "content": piece,
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": True,
            }
            for i, piece in enumerate(SPECIAL_PIECES)
        ],
        "normalizer": {"type": "Sequence", "normalizers": [*_normalizers(tokenizer)]},
        "pre_tokenizer": None,
        "post_processor": _ends_in_eos(),
        "decoder": {"type": "Sequence", "decoders": [*_decoders()]},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": SPECIAL_PIECES[UNK],
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": True,
            "byte_fallback": tokenizer.settings.byte_fallback,
            "ignore_merges": False,
            "vocab": {piece: i for i, piece in enumerate(pieces)},
            "merges": _merges(processor, pieces),
        },
    }


def _replace(old: str, new: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": {"String": old}, "content": new}


def _normalizers(tokenizer: Tokenizer) -> Iterator[dict[str, Any]]:
    """The Unicode form, the escapes of `SentencePieceTokenizer`, and a space before each text."""
    yield from NORMALIZERS[tokenizer.settings.form]
    yield _replace(ESCAPE, ESCAPE + ESCAPE)
    yield _replace(UNDERSCORE, ESCAPE + UNDERSCORE)
    yield _replace(SPACE, UNDERSCORE)
    yield {"type": "Prepend", "prepend": SPACE}
    yield _replace(" ", SPACE)


def _decoders() -> Iterator[dict[str, Any]]:
    yield _replace(SPACE, " ")
    yield {"type": "ByteFallback"}
    yield {"type": "Fuse"}
    yield _replace(ESCAPE + ESCAPE, HELD[0])
    yield _replace(ESCAPE + UNDERSCORE, HELD[1])
    yield _replace(UNDERSCORE, SPACE)
    yield _replace(HELD[0], ESCAPE)
    yield _replace(HELD[1], UNDERSCORE)
    yield {"type": "Strip", "content": " ", "start": 1, "stop": 0}


def _ends_in_eos() -> dict[str, Any]:
    end = SPECIAL_PIECES[EOS]
    first, second = ({"Sequence": {"id": name, "type_id": 0}} for name in "AB")
    stop = {"SpecialToken": {"id": end, "type_id": 0}}
    return {
        "type": "TemplateProcessing",
        "single": [first, stop],
        "pair": [first, stop, second, stop],
        "special_tokens": {end: {"id": end, "ids": [EOS], "tokens": [end]}},
    }


def _merges(processor: Any, pieces: list[str]) -> list[tuple[str, str]]:
    """Pairs to merge, the first ones first.

    SentencePiece merges the neighbours whose piece has the highest score; each way to split a
    piece is a pair.
    """
    learned = range(len(SPECIAL_PIECES), len(pieces))
    scores = {pieces[i]: processor.get_score(i) for i in learned if not processor.is_byte(i)}
    ranked = sorted(scores, key=lambda piece: -scores[piece])
    return [
        (piece[:cut], piece[cut:])
        for piece in ranked
        for cut in range(1, len(piece))
        if piece[:cut] in scores and piece[cut:] in scores
    ]
