"""Tokenizers of folders that `transformers` saved -> ours, and back."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any

from regard.errors import RunError, TextError
from regard.exchange.huggingface.family import HfModel
from regard.exchange.huggingface.folder import (
    TOKENIZER,
    TOKENIZER_CONFIG,
    HfFolder,
    JsonObject,
    string_token,
)
from regard.json_files import dump_json
from regard.settings import abbreviate
from regard.text.hf_tokenizer import HfTokenizer, parse_tokenizer
from regard.text.settings import TokenizerSettings
from regard.text.vocabulary_map import MAX_ROWS, MIN_ROWS, VocabularyMap

tokenizers: Any = import_module("tokenizers")  # if missing, `hf_tokenizer` has raised an error

SPECIAL_TOKENS = "special_tokens_map.json"
WORDPIECE_TOKENS = {
    "pad_token": "[PAD]",
    "unk_token": "[UNK]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "mask_token": "[MASK]",
}
BYTE_TOKENS = {
    "pad_token": "<pad>",
    "unk_token": "<unk>",
    "cls_token": "<s>",
    "sep_token": "</s>",
    "mask_token": "<mask>",
}
"""Special tokens of BERT's (above) and RoBERTa's tokenizers, if a folder does not name them."""
ROLES = ("pad_token", "unk_token", "bos_token", "eos_token", "cls_token", "sep_token", "mask_token")


class TokenizerFiles:
    """The files of a tokenizer in a folder."""

    def __init__(self, folder: HfFolder, content: bytes) -> None:
        """`content` is its `tokenizer.json`, or the equivalent built from other files."""
        self.folder, self.content = folder, content
        self.config = folder.read_object(TOKENIZER_CONFIG) or {}
        self._roles = (folder.read_object(SPECIAL_TOKENS) or {}) | self.config
        try:
            self._ids = _token_ids(content)
        except TextError as error:
            raise RunError(f"{folder.path}: {error}") from None

    def special(self, role: str, default: str | None = None) -> int | None:
        """The id of the token with a role such as `pad_token`; None if there is none."""
        name = string_token(self._roles.get(role)) or default
        return None if name is None else self._ids.get(name)

    def build(self, special: Sequence[int | None], rows: int) -> HfTokenizer:
        """Our tokenizer; `special` are their ids of PAD, UNK, BOS and EOS, and `rows` is the size
        of the model's vocabulary.
        """
        pad, unk, bos, eos = _without_repeats(special)
        if not MIN_ROWS <= rows <= MAX_ROWS:
            raise RunError(
                f"{self.folder.path / 'config.json'}: vocab_size is {rows:,}, and must be from "
                f"{MIN_ROWS} to {MAX_ROWS:,}"
            )
        if bad := [i for i in (pad, unk, bos, eos) if i is not None and not 0 <= i < rows]:
            raise RunError(
                f"{self.folder.path}: a special token has the id {bad[0]}, and the model has a "
                f"vocabulary of {rows:,}"
            )
        mapped = VocabularyMap(special=(pad, unk, bos, eos), rows=rows)
        settings = TokenizerSettings(kind="huggingface", size=mapped.size, form="none")
        try:
            return HfTokenizer(self.content, settings, mapped)
        except TextError as error:
            raise RunError(f"{self.folder.path}: {error}") from None


def read_byte_bpe(folder: HfFolder) -> TokenizerFiles:
    """The byte-level BPE of a folder: its `tokenizer.json`, or GPT-2's two files."""
    content = folder.read_bytes(TOKENIZER)
    if content is None:
        vocabulary, merges = folder.read_object("vocab.json"), folder.read_bytes("merges.txt")
        if vocabulary is None or merges is None:
            raise _no_tokenizer(folder, f"{TOKENIZER}, or vocab.json and merges.txt")
        content = _byte_bpe(folder, vocabulary, merges)
    return TokenizerFiles(folder, content)


def read_wordpiece(folder: HfFolder) -> TokenizerFiles:
    """BERT's WordPiece: its `tokenizer.json`, or the file of its vocabulary."""
    content = folder.read_bytes(TOKENIZER)
    if content is None:
        vocabulary = folder.read_bytes("vocab.txt")
        if vocabulary is None:
            raise _no_tokenizer(folder, f"{TOKENIZER}, or vocab.txt")
        content = _wordpiece(folder, vocabulary)
    return TokenizerFiles(folder, content)


def read_tokenizer_json(folder: HfFolder) -> TokenizerFiles:
    """The tokenizer of a folder that must have a `tokenizer.json`."""
    content = folder.read_bytes(TOKENIZER)
    if content is None:
        raise _no_tokenizer(folder, TOKENIZER)
    return TokenizerFiles(folder, content)


def _no_tokenizer(folder: HfFolder, wanted: str) -> RunError:
    return RunError(
        f"{folder.path}: holds no tokenizer; it must have {wanted}: save it with the model "
        "(tokenizer.save_pretrained)"
    )


def _byte_bpe(folder: HfFolder, vocabulary: JsonObject, merges: bytes) -> bytes:
    """GPT-2's tokenizer, given as two files, as a `tokenizer.json`."""
    lines = _lines(folder, "merges.txt", merges)
    merged = [line.partition(" ") for line in lines if line and not line.startswith("#version")]
    pairs = [(first, second) for first, _, second in merged]
    config = folder.read_object(TOKENIZER_CONFIG) or {}
    spaced = bool(config.get("add_prefix_space", False))
    try:
        found = tokenizers.Tokenizer(tokenizers.models.BPE(vocabulary, pairs))
    except Exception as error:  # the library raises no subclass
        raise RunError(
            f"{folder.path}: vocab.json and merges.txt do not match: {abbreviate(str(error))}"
        ) from None
    found.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=spaced)
    found.decoder = tokenizers.decoders.ByteLevel()
    found.post_processor = tokenizers.processors.ByteLevel(trim_offsets=False)
    return _with_special_tokens(folder, found, {})


def _wordpiece(folder: HfFolder, vocabulary: bytes) -> bytes:
    """BERT's tokenizer, given as a vocabulary, as a `tokenizer.json`."""
    ids = {line: i for i, line in enumerate(_lines(folder, "vocab.txt", vocabulary)) if line}
    config = folder.read_object(TOKENIZER_CONFIG) or {}
    found = tokenizers.Tokenizer(tokenizers.models.WordPiece(ids, unk_token="[UNK]"))
    found.normalizer = tokenizers.normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=bool(config.get("tokenize_chinese_chars", True)),
        strip_accents=config.get("strip_accents"),
        lowercase=bool(config.get("do_lower_case", True)),
    )
    found.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    found.decoder = tokenizers.decoders.WordPiece()
    frame = [("[CLS]", ids.get("[CLS]", 0)), ("[SEP]", ids.get("[SEP]", 0))]
    found.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=frame
    )
    return _with_special_tokens(folder, found, WORDPIECE_TOKENS)


def _with_special_tokens(folder: HfFolder, found: Any, defaults: Mapping[str, str]) -> bytes:
    """A `tokenizer.json` in which the special tokens of the folder's settings are special."""
    config = folder.read_object(TOKENIZER_CONFIG) or {}
    roles = {**defaults, **(folder.read_object(SPECIAL_TOKENS) or {}), **config}
    names = dict.fromkeys(string_token(roles.get(role)) for role in ROLES)
    known = [name for name in names if name is not None and found.token_to_id(name) is not None]
    found.add_special_tokens(known)
    text: str = found.to_str()
    return text.encode()


def _lines(folder: HfFolder, name: str, content: bytes) -> list[str]:
    try:
        return content.decode().removesuffix("\n").split("\n")
    except UnicodeDecodeError:
        raise RunError(f"{folder.path / name}: not UTF-8") from None


def _without_repeats(special: Sequence[int | None]) -> list[int | None]:
    """The ids of PAD, UNK, BOS, EOS, each once: if roles share an id, only the last keeps it."""
    pad, unk, bos, eos = special
    bos = None if bos == eos else bos
    unk = None if unk in (bos, eos) else unk
    pad = None if pad in (bos, eos, unk) else pad
    return [pad, unk, bos, eos]


def _token_ids(content: bytes) -> dict[str, int]:
    """The ids of all tokens of a `tokenizer.json`, added ones too."""
    found: dict[str, int] = parse_tokenizer(content).get_vocab(with_added_tokens=True)
    return found


def with_tokenizer_files(model: HfModel) -> HfModel:
    """A model with the files of its imported tokenizer."""
    assert model.tokenizers is not None
    content, roles = model.tokenizers.source.content, model.special_tokens
    names = {i: name for name, i in _token_ids(content).items()}
    config: dict[str, Any] = {"tokenizer_class": "PreTrainedTokenizerFast"}
    config |= {role: names[i] for role, i in roles.items() if i is not None and i in names}
    if "cls_token" in roles and model.tokenizers.source.pair_segments:
        config["model_input_names"] = ["input_ids", "token_type_ids", "attention_mask"]
    files = {TOKENIZER: content, TOKENIZER_CONFIG: f"{dump_json(config, indent=2)}\n".encode()}
    return replace(model, files=files)
