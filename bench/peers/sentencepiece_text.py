"""Text <-> ids with SentencePiece alone: what a peer's user would write."""

import json
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

PAD, UNK, BOS, EOS = range(4)
"""As in `regard.text.special_tokens`, which this does without, as peers do without regard."""


class PeerTokenizer:
    """The vocabulary in a folder that a peer's `export` wrote."""

    def __init__(self, folder: Path) -> None:
        import sentencepiece  # which nobody needs who has ids

        self.facts: dict[str, Any] = json.loads((folder / "shape.json").read_text("utf-8"))
        self._processor = sentencepiece.SentencePieceProcessor(
            model_file=str(folder / "tokenizer.model")
        )

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text, without EOS."""
        return cast(list[list[int]], self._processor.encode(self._mend(texts), out_type=int))

    def decode(self, rows: Sequence[Sequence[int]]) -> list[str]:
        """The text of each row, which ends before its first EOS."""
        ended = [row[: row.index(EOS)] if EOS in row else row for row in map(list, rows)]
        return [text.strip() for text in self._processor.decode(ended)]

    def _mend(self, texts: Sequence[str]) -> list[str]:
        form = self.facts["form"]
        shaped = [
            text if form == "none" else unicodedata.normalize(form.upper(), text) for text in texts
        ]
        return [text.lower() for text in shaped] if self.facts["lowercase"] else shaped


def longest_answer(sources: Sequence[Sequence[int]]) -> int:
    """How many tokens an answer to any of them may have: as our own searches allow by default."""
    return min(256, 2 * max(map(len, sources)) + 20)
