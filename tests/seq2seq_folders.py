"""Tiny encoder-decoders with random weights, as `transformers` saves them, for tests."""

import io
import json
import os
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import sentencepiece
import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers
from tokenizers.trainers import BpeTrainer
from transformers.models.m2m_100.tokenization_m2m_100 import FAIRSEQ_LANGUAGE_CODES

from hf_folders import roberta_bytes

TEXT = """the cat sat on the mat and the dog ran away from the house
eine Katze saß auf der Matte und der Hund lief aus dem Haus
Jane visite l'Afrique en septembre et elle parle à ses amis
numbers 0 1 2 3 4 5 6 7 8 9 , . ! ? ' " - ( ) : ;"""
LANGUAGES = FAIRSEQ_LANGUAGE_CODES["m2m100"]


def spm_model(size: int = 90) -> bytes:
    """A SentencePiece model with its own numbers: unknown, start and end come first."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXT.splitlines() * 3),
        model_writer=model,
        vocab_size=size,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    return model.getvalue()


def pieces_of(model: bytes) -> list[str]:
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    return [processor.id_to_piece(i) for i in range(3, processor.get_piece_size())]


def write_marian_tokenizer(folder: Path, *, separate: bool = False) -> tuple[int, int]:
    """Files of a tokenizer; the sizes of its vocabularies."""
    source, target = spm_model(90), spm_model(80)
    (folder / "source.spm").write_bytes(source)
    (folder / "target.spm").write_bytes(target)
    shared = list(dict.fromkeys(reversed([*pieces_of(source), *pieces_of(target)])))
    sides = [shared]
    if separate:
        sides = [pieces_of(source)[::-1], pieces_of(target)]
    sizes = []
    for name, pieces in zip(("vocab.json", "target_vocab.json"), sides, strict=False):
        listed = ["</s>", "<unk>", *pieces, ">>de<<", ">>fr<<"]
        ids = {piece: i for i, piece in enumerate(listed)}
        if separate:  # its padding must be one id of both
            ids = {"</s>": 0, "<unk>": 1, "<pad>": 2}
            ids |= {piece: i + 3 for i, piece in enumerate(pieces)}
        else:
            ids["<pad>"] = len(ids)
        (folder / name).write_text(json.dumps(ids))
        sizes.append(len(ids))
    config: dict[str, Any] = {"tokenizer_class": "MarianTokenizer", "separate_vocabs": separate}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return sizes[0], sizes[-1]


def save(folder: Path, model: Any) -> None:
    """Save a model whose norms and biases are random too."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, one in [*model.named_parameters(), *model.named_buffers()]:
            if "embed_positions" in name and not one.requires_grad:
                continue
            is_norm = "norm" in name and name.endswith("weight")
            one.copy_(torch.randn(one.shape, generator=generator) * 0.3 + float(is_norm))
    model.save_pretrained(folder)


def sizes(**more: Any) -> dict[str, Any]:
    return {
        "d_model": 16,
        "encoder_layers": 2,
        "decoder_layers": 1,
        "encoder_attention_heads": 2,
        "decoder_attention_heads": 2,
        "encoder_ffn_dim": 24,
        "decoder_ffn_dim": 24,
        "max_position_embeddings": 64,
        **more,
    }


def make_marian(folder: Path, *, separate: bool = False, **switches: Any) -> None:
    rows, target_rows = write_marian_tokenizer(folder, separate=separate)
    pad = 2 if separate else rows - 1
    options = sizes(vocab_size=rows, decoder_vocab_size=target_rows, eos_token_id=0)
    options |= {"pad_token_id": pad, "decoder_start_token_id": pad, "forced_eos_token_id": 0}
    options |= {"share_encoder_decoder_embeddings": not separate, **switches}
    save(folder, transformers.MarianMTModel(transformers.MarianConfig(**options)))


def write_language_tokenizer(folder: Path) -> int:
    """M2M100's files, with all languages that its class numbers; the size of its vocabulary."""
    model = spm_model(90)
    (folder / "sentencepiece.bpe.model").write_bytes(model)
    listed = ["<s>", "<pad>", "</s>", "<unk>", *reversed(pieces_of(model))]
    (folder / "vocab.json").write_text(json.dumps({piece: i for i, piece in enumerate(listed)}))
    tokens = [f"__{code}__" for code in LANGUAGES]
    config = {
        "tokenizer_class": "M2M100Tokenizer",
        "additional_special_tokens": tokens,
        "src_lang": "en",
        "tgt_lang": "de",
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return len(listed) + len(tokens)


def make_m2m100(folder: Path, **switches: Any) -> None:
    rows = write_language_tokenizer(folder) + switches.pop("unused_rows", 3)
    config = transformers.M2M100Config(**sizes(vocab_size=rows, **switches))
    save(folder, transformers.M2M100ForConditionalGeneration(config))


def make_bart(folder: Path, *, pre_norm: bool = False, **switches: Any) -> None:
    """BART, or mBART with `pre_norm`, with M2M100's tokenizer."""
    rows = write_language_tokenizer(folder)
    options = sizes(vocab_size=rows, **switches)
    if pre_norm:
        options |= {"pad_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2}
        config = transformers.MBartConfig(**options)
        save(folder, transformers.MBartForConditionalGeneration(config))
    else:
        config = transformers.BartConfig(**options)
        save(folder, transformers.BartForConditionalGeneration(config))


def m2m100_tokenizer(folder: Path) -> Any:
    write_language_tokenizer(folder)
    return _saved(folder, transformers.M2M100Tokenizer.from_pretrained(folder))


def nllb_tokenizer(folder: Path) -> Any:
    made = Tokenizer(models.BPE(unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    trainer = BpeTrainer(vocab_size=90, special_tokens=special, show_progress=False)
    made.train_from_iterator(TEXT.splitlines() * 3, trainer)
    parts = json.loads(made.to_str())["model"]
    merges = [tuple(pair) for pair in parts["merges"]]
    languages = {"src_lang": "eng_Latn", "tgt_lang": "deu_Latn"}
    return _saved(folder, transformers.NllbTokenizer(parts["vocab"], merges, **languages))


def mbart_tokenizer(folder: Path, kind: str = "MBart50Tokenizer") -> Any:
    special = [(name, 0.0) for name in ("<s>", "<pad>", "</s>", "<unk>")]
    pieces = [(piece, -float(n)) for n, piece in enumerate(pieces_of(spm_model(90)))]
    languages = {"src_lang": "en_XX", "tgt_lang": "de_DE"}
    return _saved(folder, getattr(transformers, kind)([*special, *pieces], **languages))


def bart_tokenizer(folder: Path) -> Any:
    return _saved(folder, roberta_bytes(transformers))


def _saved(folder: Path, tokenizer: Any) -> Any:
    tokenizer.save_pretrained(folder)
    return _with_config(folder, tokenizer, len(tokenizer))


def _with_config(folder: Path, tokenizer: Any, rows: int) -> Any:
    ends = {f"{role}_token_id": getattr(tokenizer, f"{role}_token_id") for role in ("pad", "eos")}
    config = {"vocab_size": rows, "decoder_start_token_id": ends["eos_token_id"], **ends}
    (folder / "config.json").write_text(json.dumps(config))
    return tokenizer


LANGUAGE_TOKENIZERS = {
    "m2m100": m2m100_tokenizer,
    "nllb": nllb_tokenizer,
    "mbart50": mbart_tokenizer,
    "first mbart": partial(mbart_tokenizer, kind="MBartTokenizer"),
    "bart": bart_tokenizer,
}
"""Functions that write the files of a tokenizer into a folder, and return it."""
