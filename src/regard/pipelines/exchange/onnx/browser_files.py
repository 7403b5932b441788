"""A translator's files for transformers.js: model and search settings, and the tokenizer."""

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import Any

from regard.atomic_io import write_atomic
from regard.errors import RunError
from regard.exchange.transformers_js import (
    config_json,
    require_browser_kind,
    tokenizer_config,
    tokenizer_json,
)
from regard.json_files import dump_json
from regard.pipelines.exchange.generation_config import GENERATION_CONFIG, generation_config
from regard.pipelines.exchange.onnx.onnx_samples import ExportableRun
from regard.text.special_tokens import BOS, EOS, PAD, SPECIAL_PIECES, UNK
from regard.text.tokenizer import Tokenizer
from regard.text.vocabulary_map import VocabularyMap

NUM_TEXTS, MAX_PIECES = 200, 30  # texts of random pieces that are compared, and pieces of each
HOSTILE = (
    "",
    " ",
    "  two  spaces ",
    "a\tb\nc\u00a0d",
    "▁ \ufdd0\ufdd1",
    "e\u0301 ﬁ ² Å",
    "\u200d👩‍👩‍👧 🇩🇪",
    "漢字かな한국어 עברית العربية हिन्दी",
    "x" * 300,
    "…“”„‚'’\x7f\x01",
)
"""Texts that some tokenizers have split differently."""


def why_not_in_browsers(run: ExportableRun) -> str | None:
    """Why transformers.js cannot run a model, or would tokenize differently; None: it can."""
    try:
        require_browser_kind(run.family, run.task, run.tokenizers)
    except RunError as error:
        return str(error)
    assert run.tokenizers is not None
    if find_spec("tokenizers") is None:
        return "checking its tokenizer needs the package tokenizers, which is not installed"
    return compare_ids(run.tokenizers.source)


def compare_ids(tokenizer: Tokenizer) -> str | None:
    """How the tokenizer differs from its `tokenizer.json` on sample texts; None: it does not."""
    library: Any = import_module("tokenizers")
    other = library.Tokenizer.from_str(dump_json(tokenizer_json(tokenizer)))
    rng, first = Random(0), len(SPECIAL_PIECES)
    drawn = [
        tokenizer.decode([rng.randrange(first, tokenizer.size) for _ in range(1 + n % MAX_PIECES)])
        for n in range(NUM_TEXTS)
    ]
    for text in (*HOSTILE, *drawn):
        [ids] = tokenizer.encode([text])
        if other.encode(text).ids != [*ids, EOS]:
            return f"its tokenizer would split {text[:40]!r} differently"
        if other.decode(ids) != tokenizer.decode(ids):
            return f"its tokenizer would spell {text[:40]!r} differently"
    return None


def write_browser_files(run: ExportableRun, folder: Path, precision: str) -> None:
    """Write all files but the graphs."""
    assert run.tokenizers is not None
    tokenizer = run.tokenizers.source
    vocabulary = VocabularyMap(special=(PAD, UNK, BOS, EOS), rows=tokenizer.size, start=BOS)
    files = {
        "config.json": config_json(run.recipe.model, tokenizer.size, precision),
        "tokenizer.json": tokenizer_json(tokenizer),
        "tokenizer_config.json": tokenizer_config(),
    }
    for name, content in files.items():
        write_atomic(folder / name, f"{dump_json(content, indent=1)}\n".encode())
    write_atomic(folder / GENERATION_CONFIG, generation_config(run.recipe.decoding, vocabulary))
