"""Tokenizers of imported translators: SentencePiece splits the text, a table gives the ids.

Marian and M2M100 have a SentencePiece `.model` for each side, or one for both, and a `vocab.json`
with the translator's ids; those of SentencePiece are not used.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import sentencepiece

from regard.errors import TextError
from regard.text.settings import TokenizerSettings
from regard.text.special_tokens import SPACE, SPECIAL_PIECES, UNK, spell_piece
from regard.text.tokenizer import Tokenizer, normalize
from regard.text.vocabulary_extension import Merge, extend_sentencepiece, learn_sentencepiece
from regard.text.vocabulary_map import VocabularyMap

LANGUAGE_TAG = re.compile(r">>.*?<<", re.DOTALL)  # Marian's, at the beginning of a text
NUM_SPECIAL = len(SPECIAL_PIECES)


class PieceTable(NamedTuple):
    """The ids of an imported vocabulary's pieces, and how special pieces are read."""

    ids: Mapping[str, int]  # of every piece, special ones included
    special: Sequence[str] = ()  # pieces that are recognised wherever a text spells them
    tags: bool = False  # whether a text may begin with a language tag, such as >>de<<


class MappedSentencePieceTokenizer(Tokenizer):
    """The pieces of a SentencePiece model, with the ids of a table mapped to ours.

    A piece that the table lacks is unknown. Special pieces that a text spells are read as such, as
    `transformers` does by default.
    """

    leading_space = True

    def __init__(
        self,
        model: bytes,
        table: PieceTable,
        settings: TokenizerSettings,
        vocabulary: VocabularyMap,
        opening: Sequence[int] = (),
    ) -> None:
        """`model` is the content of a SentencePiece `.model` file; `opening` are ids of ours."""
        if not model:  # SentencePiece would fail at the first text instead
            raise TextError("not a SentencePiece model: it is empty")
        try:
            self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        except RuntimeError as error:
            raise TextError(f"not a SentencePiece model: {error}") from None
        self.model, self.table, self.opening = model, table, tuple(opening)
        self.vocabulary_map = vocabulary
        if table.ids and not 0 <= max(table.ids.values()) < vocabulary.rows:
            raise TextError(
                f"its vocabulary has an id {max(table.ids.values())}, but its model only "
                f"{vocabulary.rows:,} tokens"
            )
        self._ids = {piece: vocabulary.ours[i] for piece, i in table.ids.items()}
        by_id = {i: piece for piece, i in table.ids.items()}
        special = {*table.special}
        spelled, markers = list[bytes](), dict[int, str]()
        for ours, there in enumerate(vocabulary.theirs[NUM_SPECIAL:], NUM_SPECIAL):
            piece = by_id.get(there, "") if there is not None else ""
            spelled.append(b"" if piece in special else spell_piece(piece))
            if piece in special:
                markers[ours] = piece
        names = "|".join(re.escape(one) for one in sorted(special, key=len, reverse=True))
        self._special = re.compile(f"({names})") if names else None
        super().__init__(settings, spelled, _content(model, table), markers)

    def __reduce__(self) -> tuple[Any, ...]:
        parts = self.model, self.table, self.settings, self.vocabulary_map, self.opening
        return type(self), parts  # the rest is derived

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        unknown, ids = UNK, self._ids
        return [
            [*self.opening, *(ids.get(piece, unknown) for piece in self._cut(text))]
            for text in texts
        ]

    def decode(self, ids: Sequence[int], unknown: Sequence[str] = ()) -> str:
        """As in the base class, and without white space at the ends, as `transformers` does."""
        return super().decode(ids, unknown).strip()

    def surfaces(self, text: str) -> list[str]:
        return self._split_surfaces(text)

    def learn_pieces(self, texts: Iterable[str], count: int) -> list[Merge]:
        words = Counter(word for text in texts for word in text.split())
        return learn_sentencepiece(
            self.model, words, count, known=self.table.ids, spell=spell_piece
        )

    def with_pieces(self, merges: Sequence[Merge]) -> "MappedSentencePieceTokenizer":
        assert self.vocabulary_map is not None
        vocabulary = self.vocabulary_map.with_rows(len(merges))
        added = {one.piece: self.vocabulary_map.rows + n for n, one in enumerate(merges)}
        return MappedSentencePieceTokenizer(
            extend_sentencepiece(self.model, merges),
            self.table._replace(ids={**self.table.ids, **added}),
            self._extended_settings(vocabulary.size),
            vocabulary,
            self.opening,
        )

    def _cut(self, text: str) -> list[str]:
        """The pieces of a text."""
        normalize(text, "none", lowercase=False)  # raises for half a surrogate pair
        pieces: list[str] = []
        for number, part in enumerate(self._special.split(text) if self._special else [text]):
            if number % 2:  # `split` returns what its pattern found in between
                pieces.append(part)
            elif part:
                tag = LANGUAGE_TAG.match(part) if self.table.tags else None
                if tag is not None:
                    pieces.append(tag.group())
                rest = part[tag.end() :] if tag else part
                pieces += self._processor.encode(rest, out_type=str)
        return pieces

    def _split_surfaces(self, text: str) -> list[str]:
        """The part of a text that each piece covers. A piece that is not in the text, because of
        normalisation, covers nothing; the next one that is covers the characters before it, too.
        """
        surfaces, place = [""] * len(self.opening), 0
        pieces = self._cut(text)
        for piece in pieces:
            is_special = piece in self.table.special
            letters = piece if is_special else piece.replace(SPACE, " ").strip()
            found = text.find(letters, place) if letters else -1
            end = found + len(letters) if found >= 0 else place
            surfaces.append(text[place:end])
            place = max(place, end)
        if pieces:
            surfaces[-1] += text[place:]
        return surfaces


def _content(model: bytes, table: PieceTable) -> bytes:
    """What is saved: the table on a line of JSON, then the model."""
    return json.dumps(table._asdict(), ensure_ascii=True).encode() + b"\n" + model


def load_mapped(
    content: bytes, settings: TokenizerSettings, vocabulary: VocabularyMap, opening: Sequence[int]
) -> MappedSentencePieceTokenizer:
    """The tokenizer that was saved with this content."""
    model, table = split_content(content)
    return MappedSentencePieceTokenizer(model, table, settings, vocabulary, opening)


def split_content(content: bytes) -> tuple[bytes, PieceTable]:
    """The SentencePiece model and the table of a saved tokenizer."""
    head, _, model = content.partition(b"\n")
    try:
        raw = json.loads(head)
        return model, PieceTable(dict(raw["ids"]), tuple(raw["special"]), bool(raw["tags"]))
    except (ValueError, KeyError, TypeError):
        raise TextError(
            "not a vocabulary of an imported translator, or damaged; import it again"
        ) from None
