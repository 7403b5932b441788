"""Read the tokenizer files of translators: a SentencePiece model, and ids in `vocab.json`."""

from collections.abc import Iterator, Mapping, Sequence

from regard.errors import RunError, TextError
from regard.exchange.huggingface.folder import TOKENIZER_CONFIG, HfFolder, JsonObject, string_token
from regard.exchange.huggingface.tokenizer_files import ROLES as TOKENIZER_ROLES
from regard.exchange.huggingface.tokenizer_files import SPECIAL_TOKENS
from regard.exchange.huggingface.translators.seq2seq import seq2seq_map
from regard.settings import abbreviate
from regard.text.mapped_sentencepiece import MappedSentencePieceTokenizer, PieceTable
from regard.text.settings import TokenizerSettings
from regard.text.vocabulary_map import VocabularyMap

VOCABULARY, TARGET_VOCABULARY = "vocab.json", "target_vocab.json"
ROLES = {"unk_token": "<unk>", "eos_token": "</s>", "pad_token": "<pad>"}


def read_pieces(folder: HfFolder, name: str) -> dict[str, int]:
    """The ids of all pieces of a `vocab.json`."""
    raw = folder.read_object(name)
    if raw is None:
        raise RunError(
            f"{folder.path}: holds no {name}; save the tokenizer with the model "
            "(tokenizer.save_pretrained)"
        )
    ids = [i for i in raw.values() if isinstance(i, int) and not isinstance(i, bool) and i >= 0]
    if len({*ids}) < len(raw):
        raise RunError(f"{folder.path / name}: every piece must have its own id, from 0")
    roles = special_tokens(folder)
    for token in (roles["unk_token"], roles["eos_token"]):
        if token not in raw:
            raise RunError(
                f"{folder.path / name}: has no {abbreviate(token)}, which every text needs; it is "
                "not the vocabulary of this model: save the tokenizer with the model again "
                "(tokenizer.save_pretrained)"
            )
    return raw


def special_tokens(folder: HfFolder, defaults: Mapping[str, str] = ROLES) -> dict[str, str]:
    """The token of each role that the folder's settings name, or that `defaults` has."""
    raw = (folder.read_object(SPECIAL_TOKENS) or {}) | (folder.read_object(TOKENIZER_CONFIG) or {})
    named = {role: string_token(raw.get(role)) for role in TOKENIZER_ROLES}
    return {**defaults, **{role: name for role, name in named.items() if name}}


def added_tokens(folder: HfFolder) -> dict[str, int]:
    """Tokens that the settings of a tokenizer add, with their ids."""
    config = folder.read_object(TOKENIZER_CONFIG) or {}
    found = dict(_ids_of(folder.read_object("added_tokens.json") or {}))
    added = config.get("added_tokens_decoder")
    for i, token in added.items() if isinstance(added, dict) else ():
        name = string_token(token)
        if name is not None and i.isdecimal():
            found[name] = int(i)
    return found


def _ids_of(raw: JsonObject) -> Iterator[tuple[str, int]]:
    for name, i in raw.items():
        if isinstance(i, int) and not isinstance(i, bool):
            yield name, i


def build_tokenizer(
    folder: HfFolder,
    model_file: str,
    table: PieceTable,
    vocabulary: VocabularyMap,
    opening: Sequence[int] = (),
) -> MappedSentencePieceTokenizer:
    """Our tokenizer from a SentencePiece model and a table."""
    model = folder.read_bytes(model_file)
    if model is None:
        raise RunError(
            f"{folder.path}: holds no {model_file}; save the tokenizer with the model "
            "(tokenizer.save_pretrained)"
        )
    settings = TokenizerSettings(kind="sentencepiece", size=vocabulary.size, form="none")
    try:
        return MappedSentencePieceTokenizer(model, table, settings, vocabulary, opening)
    except TextError as error:
        raise RunError(f"{folder.path / model_file}: {error}") from None


def map_of(folder: HfFolder, ids: dict[str, int], rows: int) -> VocabularyMap:
    """The map from a `vocab.json` for a model with `rows` embeddings."""
    return seq2seq_map(folder, ids.get(special_tokens(folder)["unk_token"]), rows)


def language_id(ids: Mapping[str, int], folder: HfFolder, side: str) -> int:
    """The id of the language of a side: the given one, or that of the tokenizer's settings."""
    config = folder.read_object(TOKENIZER_CONFIG) or {}
    code = folder.languages.get(side) or config.get("src_lang" if side == "source" else "tgt_lang")
    if not isinstance(code, str):
        raise RunError(
            f"{folder.path}: translates between many languages: choose them with --source-language "
            "and --target-language"
        )
    for spelled in (f"__{code}__", code):  # in this order: fr may also be a piece of text
        if spelled in ids:
            return ids[spelled]
    raise RunError(f"{folder.path}: its vocabulary has no language {abbreviate(code)}")


def refuse_languages(folder: HfFolder) -> None:
    """Raise a `RunError` if languages were given, as this model is not multilingual."""
    if folder.languages:
        raise RunError(
            f"{folder.path}: this model is not multilingual; leave out --source-language "
            "and --target-language"
        )
