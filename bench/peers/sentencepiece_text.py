"""Text <-> ids with SentencePiece alone: what a peer's user would write."""

import json
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

PAD, UNK, BOS, EOS = range(4)
"""As in `regard.text.special_tokens`, not imported here: a peer may do without regard."""


class PeerTokenizer:
    """The vocabulary in a folder that a peer's `export` wrote."""

    def __init__(self, folder: Path) -> None:
        import sentencepiece  # not needed for ids alone

        self.facts: dict[str, Any] = json.loads((folder / "shape.json").read_text("utf-8"))
        self._processor = sentencepiece.SentencePieceProcessor(
            model_file=str(folder / "tokenizer.model")
        )

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text, without EOS."""
        return cast(list[list[int]], self._processor.encode(self._normalise(texts), out_type=int))

    def decode(self, rows: Sequence[Sequence[int]]) -> list[str]:
        """The text of each row, which ends before its first EOS."""
        ended = [row[: row.index(EOS)] if EOS in row else row for row in map(list, rows)]
        return [text.strip() for text in self._processor.decode(ended)]

    def _normalise(self, texts: Sequence[str]) -> list[str]:
        form = self.facts["form"]
        normalised = [
            text if form == "none" else unicodedata.normalize(form.upper(), text) for text in texts
        ]
        return [text.lower() for text in normalised] if self.facts["lowercase"] else normalised


def longest_answer(sources: Sequence[Sequence[int]]) -> int:
    """The most tokens of an answer to any of them, as our own searches allow by default."""
    return min(256, 2 * max(map(len, sources)) + 20)
