"""The tokens of the same texts by tokenizers of ours and of `transformers`."""

import json
from collections.abc import Iterator, Sequence
from importlib import import_module
from itertools import islice
from random import Random
from typing import Any
from warnings import catch_warnings, simplefilter

from regard.exchange.huggingface.folder import HfFolder
from regard.pipelines.exchange.gate import loading
from regard.settings import abbreviate
from regard.tasks.names import TRANSLATION
from regard.text.build import Tokenizers
from regard.text.special_tokens import BOS, EOS, SPECIAL_PIECES
from regard.text.tokenizer import Tokenizer
from regard.text.vocabulary_map import VocabularyMap

TEXTS = (
    "",
    "The Cat sat on the mat.",
    "  two  spaces, at its ends too ",
    "don't, you'll: 12,345.67 1e-9 $5 50% a_b-c/d\\e @x #y",
    "Élève, naïve ÅNGSTRÖM, İstanbul ß",
    "漢字かな한국어 עברית العربية हिन्दी 👩\u200d👧 🇩🇪",
    "a\tb\nc\u00a0d\u3000e",
    "e\u0301 ﬁ ² Å",
    "▁ \x01 \x7f \ufffd \u200b…“”„‚'’",
    "x" * 300,
)
"""Texts that tokenizers split differently, depending on their settings."""
FRAMED, SEGMENTS = "a", "token_type_ids"
LANGUAGE_MODEL = "language-model"
NUM_DRAWN, MAX_PIECES, MAX_NAMED = 100, 20, 100
"""Texts of random pieces, pieces of each, and special tokens that are put into a text."""


def load_peer_tokenizer(folder: HfFolder) -> Any:
    """The tokenizer that `transformers` makes of a folder's files, for the languages asked for."""
    transformers = import_module("transformers")  # optional, and slow to import
    names = {"source": "src_lang", "target": "tgt_lang"}
    languages = {names[side]: code for side, code in folder.languages.items()}
    with loading(folder, transformers), catch_warnings():
        simplefilter("ignore")  # that Marian's tokenizer recommends a package
        return transformers.AutoTokenizer.from_pretrained(
            str(folder.path), local_files_only=True, trust_remote_code=False, **languages
        )


def tokenizer_json(peer: Any) -> bytes | None:
    """The `tokenizer.json` of their tokenizer as its class made it, without the segments that the
    class does not return; None: it has none.
    """
    backend = getattr(peer, "backend_tokenizer", None)
    if backend is None:
        return None
    raw = json.loads(backend.to_str())
    if SEGMENTS not in peer(FRAMED):
        _join_segments(raw.get("post_processor"))
    return json.dumps(raw, ensure_ascii=False).encode()


def _join_segments(processor: Any) -> None:
    """Put all parts of a template's texts into the first segment."""
    parts = processor.values() if isinstance(processor, dict) else processor
    if isinstance(processor, dict) and "type_id" in processor:
        processor["type_id"] = 0
    for part in parts if isinstance(processor, dict | list) else ():
        _join_segments(part)


def tokenization_difference(
    folder: HfFolder, peer: Any, tokenizers: Tokenizers, task: str
) -> str | None:
    """How our tokenizers and those of `peer` differ on sample texts; None: they do not."""
    source, target = tokenizers
    with loading(folder, import_module("transformers")):
        found = _difference(peer, source, "text")
        if found is None and target is not source:
            found = _difference(peer, target, "text_target")
        return _frame_difference(peer, source, task) if found is None else found


def _difference(peer: Any, tokenizer: Tokenizer, argument: str) -> str | None:
    """The first text that is tokenized differently; `argument` is the side that `peer` reads it as.

    Texts with ids that their model does not have are not compared: it cannot read them.
    """
    vocabulary, opening = tokenizer.vocabulary_map, len(tokenizer.opening)
    assert vocabulary is not None
    for text in _sample(peer, tokenizer):
        theirs = peer(**{argument: text}, add_special_tokens=False)["input_ids"]
        ours = _spelled(vocabulary, tokenizer.encode([text])[0][opening:])
        if ours != theirs and max(theirs, default=0) < vocabulary.rows:
            return _different(text, peer, theirs, ours)
    return None


def _sample(peer: Any, tokenizer: Tokenizer) -> Iterator[str]:
    """Texts of every kind, with each special token that theirs has, and of random pieces."""
    yield from TEXTS
    named = dict.fromkeys([*peer.all_special_tokens, *peer.get_added_vocab()])
    yield from (f"a {name} b{name}c" for name in islice(named, MAX_NAMED))
    rng, first = Random(0), len(SPECIAL_PIECES)
    for n in range(NUM_DRAWN if tokenizer.size > first else 0):
        ids = [rng.randrange(first, tokenizer.size) for _ in range(1 + n % MAX_PIECES)]
        yield tokenizer.decode(ids)


def _frame_difference(peer: Any, tokenizer: Tokenizer, task: str) -> str | None:
    """How the special tokens around a text differ."""
    vocabulary = tokenizer.vocabulary_map
    assert vocabulary is not None
    theirs, [ids] = peer(FRAMED)["input_ids"], tokenizer.encode([FRAMED])
    if task == LANGUAGE_MODEL:  # a prompt has no EOS
        ours = [*(tokenizer.text_prefix or ()), *ids]
        theirs = theirs[: len(ours)]
    else:
        ours = [*ids, EOS] if task == TRANSLATION else [BOS, *ids, EOS]
    spelled = _spelled(vocabulary, ours)
    if spelled != theirs:
        return _different(FRAMED, peer, theirs, spelled)
    return None if task in (LANGUAGE_MODEL, TRANSLATION) else _pair_difference(peer, tokenizer)


def end_notes(peer: Any, tokenizer: Tokenizer, task: str) -> tuple[str, ...]:
    """A note on what theirs puts behind a text of a language model."""
    assert tokenizer.vocabulary_map is not None
    ours = [*(tokenizer.text_prefix or ()), *tokenizer.encode([FRAMED])[0]]
    behind = peer.convert_ids_to_tokens(peer(FRAMED)["input_ids"][len(ours) :])
    if task != LANGUAGE_MODEL or not behind:
        return ()
    return (f"transformers puts {' '.join(behind)} behind a text (add_eos_token); here nothing is",)


def _pair_difference(peer: Any, tokenizer: Tokenizer) -> str | None:
    """How two texts that are read together differ, in tokens or in segments."""
    vocabulary, [ids] = tokenizer.vocabulary_map, tokenizer.encode([FRAMED])
    assert vocabulary is not None
    pair = peer(FRAMED, FRAMED)
    first = [BOS, *ids, *[EOS] * tokenizer.separators]
    spelled, segment = _spelled(vocabulary, [*first, *ids, EOS]), int(tokenizer.pair_segments)
    if spelled != pair["input_ids"]:
        return _different(f"{FRAMED} ||| {FRAMED}", peer, pair["input_ids"], spelled)
    ours = [0] * len(first) + [segment] * (len(ids) + 1)
    theirs = pair.get(SEGMENTS, [0] * len(spelled))
    return None if theirs == ours else f"segments of two texts are {theirs} there, and {ours} here"


def _spelled(vocabulary: VocabularyMap, ids: Sequence[int]) -> list[int | None]:
    """Their ids for ours; None for a token that they do not have."""
    return [vocabulary.theirs[i] for i in ids]


def _different(text: str, peer: Any, theirs: Sequence[int], ours: Sequence[int | None]) -> str:
    def names(ids: Sequence[int | None]) -> str:
        return abbreviate(str([i if i is None else peer.convert_ids_to_tokens(i) for i in ids]))

    return f"{abbreviate(repr(text))} becomes {names(theirs)} there, and {names(ours)} here"
