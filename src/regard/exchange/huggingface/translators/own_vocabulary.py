"""Our tokenizers -> the files of Marian's and of M2M100's tokenizers."""

import sentencepiece

from regard.errors import RunError
from regard.exchange.huggingface.folder import JsonObject
from regard.exchange.huggingface.translators.language_lists import LANGUAGE_LISTS
from regard.json_files import dump_json
from regard.text.build import Tokenizers
from regard.text.mapped_sentencepiece import (
    MappedSentencePieceTokenizer,
    PieceTable,
    split_content,
)
from regard.text.settings import SUBWORD_KINDS, TokenizerSettings
from regard.text.special_tokens import BOS, EOS, PAD, SPECIAL_PIECES, UNK
from regard.text.tokenizer import Tokenizer
from regard.text.vocabulary_map import VocabularyMap

MODELS = ("source.spm", "target.spm")
VOCABULARIES = ("vocab.json", "target_vocab.json")
LANGUAGE_PIECES = "sentencepiece.bpe.model"  # of M2M100


def as_mapped(tokenizers: Tokenizers, start: int) -> Tokenizers:
    """The tokenizers in a form that Marian's class can read, for a decoder that starts from the id
    `start`; a `RunError` names what it cannot read.
    """
    if tokenizers.source is tokenizers.target:
        one = _mapped(tokenizers.source, start)
        return Tokenizers(one, one)
    return Tokenizers(*(_mapped(one, start) for one in tokenizers))


def _mapped(tokenizer: Tokenizer, start: int) -> Tokenizer:
    settings = tokenizer.settings
    if tokenizer.vocabulary_map is not None:
        return tokenizer
    if settings.kind not in SUBWORD_KINDS or settings.byte_level:
        kind = "byte_level" if settings.byte_level else f"kind: {settings.kind}"
        raise RunError(f"text: {kind}: Marian's tokenizer has only SentencePiece's bpe and unigram")
    if settings.lowercase or settings.form == "nfkc":
        name = "lowercase: true" if settings.lowercase else "form: nfkc"
        raise RunError(f"text: {name}: Marian's tokenizer does not support this")
    vocabulary = VocabularyMap(
        special=(PAD, UNK, BOS, EOS), rows=tokenizer.size, start=start
    )  # ids are the same in both
    pieces = [*SPECIAL_PIECES, *sentencepiece_names(tokenizer)]
    table = PieceTable({piece: i for i, piece in enumerate(pieces)}, SPECIAL_PIECES)
    read_as = TokenizerSettings(kind="sentencepiece", size=tokenizer.size, form="none")
    return MappedSentencePieceTokenizer(tokenizer.content, table, read_as, vocabulary)


def sentencepiece_names(tokenizer: Tokenizer) -> list[str]:
    """SentencePiece's names of the ids after the special ones."""
    processor = sentencepiece.SentencePieceProcessor(model_proto=tokenizer.content)
    names = [processor.id_to_piece(i) for i in range(len(SPECIAL_PIECES), tokenizer.size)]
    if len({*names}) < len(names):
        raise RunError("text: its SentencePiece model has a piece twice")
    return names


def marian_files(tokenizers: Tokenizers, *, separate: bool) -> dict[str, bytes]:
    """The files of Marian's tokenizer."""
    files: dict[str, bytes] = {}
    for number, tokenizer in enumerate(tokenizers):
        model, table = piece_parts(tokenizer)
        files[MODELS[number]] = model
        if separate or number == 0:
            files[VOCABULARIES[number]] = f"{dump_json(dict(table.ids))}\n".encode()
    config: JsonObject = {"tokenizer_class": "MarianTokenizer", "separate_vocabs": separate}
    return {**files, **_config(tokenizers, config)}


def _config(tokenizers: Tokenizers, config: JsonObject) -> dict[str, bytes]:
    """`tokenizer_config.json`, with the names of the special tokens."""
    _, table = piece_parts(tokenizers.target)
    mapped = tokenizers.target.vocabulary_map
    assert mapped is not None
    names = {i: piece for piece, i in table.ids.items()}
    for role, i in (("pad_token", PAD), ("unk_token", UNK), ("eos_token", EOS)):
        there = mapped.special[i]
        if there is not None and there in names:
            config[role] = names[there]
    return {"tokenizer_config.json": f"{dump_json(config, indent=2)}\n".encode()}


def language_files(tokenizers: Tokenizers) -> dict[str, bytes]:
    """The files of M2M100's tokenizer."""
    model, table = piece_parts(tokenizers.source)
    ids = {piece: i for piece, i in table.ids.items() if not _is_language(piece)}
    names = {i: piece for piece, i in table.ids.items()}
    languages = sorted((i, piece) for piece, i in table.ids.items() if _is_language(piece))
    listed = [piece for _, piece in languages]
    if [i for i, _ in languages] != [*range(len(ids), len(ids) + len(listed))]:
        raise RunError(
            "text: its vocabulary has pieces after its languages, as --vocabulary extended adds "
            "them: M2M100's tokenizer numbers languages after all pieces, so its ids would be "
            "wrong; export it --to ctranslate2 or --to onnx"
        )
    config: JsonObject = {
        "tokenizer_class": "M2M100Tokenizer",
        "additional_special_tokens": listed,
    }
    if name := next((name for name, some in LANGUAGE_LISTS.items() if listed == [*some]), None):
        config["language_codes"] = name
    for name, side in zip(("src_lang", "tgt_lang"), tokenizers, strict=True):
        mapped = side.vocabulary_map
        assert mapped is not None
        if side.opening:
            config[name] = names[mapped.to_theirs(side.opening)[0]].strip("_")
    return {
        LANGUAGE_PIECES: model,
        VOCABULARIES[0]: f"{dump_json(ids)}\n".encode(),
        **_config(tokenizers, config),
    }


def _is_language(piece: str) -> bool:
    return piece.startswith("__") and piece.endswith("__") and len(piece) > len("____")


def piece_parts(tokenizer: Tokenizer) -> tuple[bytes, PieceTable]:
    """The SentencePiece model and the table of a tokenizer that has both."""
    if tokenizer.settings.kind != "sentencepiece":
        raise RunError(
            f"text: kind: {tokenizer.settings.kind}: has no SentencePiece model with a vocab.json"
        )
    return split_content(tokenizer.content)
