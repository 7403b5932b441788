"""Tokenizers that begin each text with a token: its language (M2M100, NLLB, mBART-50), or BOS.

They are read from a `tokenizer.json`, or from M2M100's SentencePiece model with `vocab.json`.
"""

import json
from collections.abc import Mapping
from dataclasses import replace

from regard.errors import RunError, TextError
from regard.exchange.huggingface.family import HfModel, imported_vocabulary
from regard.exchange.huggingface.folder import TOKENIZER, TOKENIZER_CONFIG, HfFolder
from regard.exchange.huggingface.tokenizer_files import (
    SPECIAL_TOKENS,
    TokenizerFiles,
    read_byte_bpe,
    with_tokenizer_files,
)
from regard.exchange.huggingface.translators.generation import generation_settings
from regard.exchange.huggingface.translators.language_lists import (
    DEFAULT_LANGUAGES,
    LANGUAGE_LISTS,
)
from regard.exchange.huggingface.translators.own_vocabulary import LANGUAGE_PIECES, language_files
from regard.exchange.huggingface.translators.piece_files import (
    ROLES,
    VOCABULARY,
    added_tokens,
    build_tokenizer,
    language_id,
    read_pieces,
    refuse_languages,
    special_tokens,
)
from regard.exchange.huggingface.translators.seq2seq import (
    Seq2SeqClass,
    read_rows,
    seq2seq_map,
    write_seq2seq,
)
from regard.models.translation.transformer_settings import TransformerSettings
from regard.settings import abbreviate, quoted
from regard.text.build import Tokenizers
from regard.text.hf_tokenizer import HfTokenizer, parse_tokenizer
from regard.text.mapped_sentencepiece import PieceTable
from regard.text.settings import TokenizerSettings
from regard.text.vocabulary_map import VocabularyMap

M2M100_ROLES = {**ROLES, "bos_token": "<s>"}
LANGUAGE_SETTINGS = ("src_lang", "tgt_lang")


def read_language_tokenizers(folder: HfFolder) -> Tokenizers:
    """The tokenizers of both sides of a folder: one vocabulary, different first tokens."""
    if (folder.path / TOKENIZER).exists() or not (folder.path / LANGUAGE_PIECES).exists():
        return _from_tokenizer_json(folder)
    if not (folder.path / VOCABULARY).exists():
        place = json.dumps(str(folder.path))
        loaded = f"AutoTokenizer.from_pretrained({place})"
        code = f"from transformers import AutoTokenizer; {loaded}.save_pretrained({place})"
        raise RunError(
            f"{folder.path}: holds {LANGUAGE_PIECES} without {VOCABULARY}, as mBART's folders may; "
            f"it is read from {TOKENIZER}, which this writes: python -c {quoted(code)}"
        )
    return _from_pieces(folder)


def _from_pieces(folder: HfFolder) -> Tokenizers:
    """M2M100's tokenizers: the ids of languages follow those of the vocabulary."""
    ids = read_pieces(folder, VOCABULARY)
    added = added_tokens(folder)
    languages = [name for name in _language_names(folder) if name not in ids]
    numbered = {name: len(ids) + n for n, name in enumerate(languages)}
    all_ids = {**numbered, **added, **ids}
    roles = special_tokens(folder, M2M100_ROLES)
    special = tuple(dict.fromkeys([*roles.values(), *added, *languages]))
    vocabulary = _map(folder, ids.get(roles["unk_token"]))
    table = PieceTable(all_ids, special)
    openings = [[language_id(all_ids, folder, side)] for side in ("source", "target")]
    ours = [_our_ids(folder, vocabulary, opening) for opening in openings]
    return Tokenizers(
        *(build_tokenizer(folder, LANGUAGE_PIECES, table, vocabulary, opening) for opening in ours)
    )


def _language_names(folder: HfFolder) -> list[str]:
    """The languages of M2M100's tokenizer, in the order of their ids: those of the list that its
    settings refer to, even if they name others.
    """
    raw = (folder.read_object(SPECIAL_TOKENS) or {}) | (folder.read_object(TOKENIZER_CONFIG) or {})
    code = raw.get("language_codes")
    code = DEFAULT_LANGUAGES if code is None else code
    if not isinstance(code, str) or code not in LANGUAGE_LISTS:
        raise RunError(
            f"{folder.path / TOKENIZER_CONFIG}: language_codes is {abbreviate(repr(code))}; known "
            f"are {' and '.join(LANGUAGE_LISTS)}"
        )
    return list(LANGUAGE_LISTS[code])


def _from_tokenizer_json(folder: HfFolder) -> Tokenizers:
    files = read_byte_bpe(folder)
    vocabulary = _map(folder, files.special("unk_token", ROLES["unk_token"]))
    openings = [_our_ids(folder, vocabulary, opening) for opening in _openings(folder, files)]
    settings = TokenizerSettings(kind="huggingface", size=vocabulary.size, form="none")
    try:
        return Tokenizers(
            *(HfTokenizer(files.content, settings, vocabulary, opening) for opening in openings)
        )
    except TextError as error:
        raise RunError(f"{folder.path}: {error}") from None


def _our_ids(folder: HfFolder, vocabulary: VocabularyMap, opening: list[int]) -> list[int]:
    """Our ids of the tokens that texts begin with; a `RunError` if the model lacks one."""
    if bad := [i for i in opening if not 0 <= i < vocabulary.rows]:
        raise RunError(
            f"{folder.path}: its texts begin with the id {bad[0]}, and the model has a vocabulary "
            f"of {vocabulary.rows:,}"
        )
    return vocabulary.to_ours(opening)


def _openings(folder: HfFolder, files: TokenizerFiles) -> tuple[list[int], list[int]]:
    """Their ids of the first tokens of sources, and of targets."""
    tokenizer = parse_tokenizer(files.content)
    plain, framed = (tokenizer.encode("a", add_special_tokens=on).ids for on in (False, True))
    before, after = _frame(plain, framed)
    eos = folder.config.get("eos_token_id")
    if any(files.config.get(name) is not None for name in LANGUAGE_SETTINGS) or folder.languages:
        if after not in ([eos], []) and len(before) == 0:
            raise RunError(
                f"{folder.path}: its sources end with </s> and their language, as in the first "
                "mBART; only models whose sources begin with the language can be imported"
            )
        ids: Mapping[str, int] = tokenizer.get_vocab(with_added_tokens=True)
        return [language_id(ids, folder, "source")], [language_id(ids, folder, "target")]
    refuse_languages(folder)
    if after != [eos]:
        raise RunError(
            f"{folder.path}: its tokenizer ends a text with the ids {after}, not with the "
            f"model's eos_token_id, {eos}"
        )
    forced = generation_settings(folder).get("forced_bos_token_id")
    return before, [forced] if isinstance(forced, int) else []


def _frame(plain: list[int], framed: list[int]) -> tuple[list[int], list[int]]:
    """The special tokens before and after a text."""
    for first in range(len(framed) - len(plain) + 1):
        if framed[first : first + len(plain)] == plain:
            return framed[:first], framed[first + len(plain) :]
    return [], []


def _map(folder: HfFolder, unk: int | None) -> VocabularyMap:
    return seq2seq_map(folder, unk, read_rows(folder, "vocab_size"))


def write_with_languages(
    kind: Seq2SeqClass, settings: TransformerSettings, tokenizers: Tokenizers
) -> HfModel:
    """A model with an imported vocabulary, and the files of its tokenizer."""
    imported_vocabulary(tokenizers)
    described = write_seq2seq(kind, settings, tokenizers)
    if tokenizers.source.settings.kind == "sentencepiece":
        return replace(described, files=language_files(tokenizers))
    return with_tokenizer_files(described)
