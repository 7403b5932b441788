"""Pieces that are added to a vocabulary, learned from new text.

A text is split as before, and neighbours that make a new piece are then merged: byte-pair encoding
(Sennrich et al. 2016) that continues from the pieces of the old tokenizer. Old pieces keep their
ids, and so do texts without a new piece.
"""

import struct
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush
from itertools import pairwise
from typing import NamedTuple

import sentencepiece

from regard.errors import TextError
from regard.text.special_tokens import BYTE_PIECE

MIN_COUNT = 5  # how often the new text must have a new piece
MAX_CHARACTERS = 16  # of a new piece, as in SentencePiece's trainer
UNIGRAM, BPE = 1, 2  # `model_type` of a model of SentencePiece
MARGIN = 0.01  # by which a new piece of a unigram model is likelier than its two parts
INSTEAD = "use it unchanged (--vocabulary run), or learn a new one from the data (--vocabulary own)"
"""The advice for a vocabulary that cannot be extended."""

Join = Callable[[str, str], str]
Spell = Callable[[str], bytes]  # the text of a piece


class Merge(NamedTuple):
    """A new piece, made of two others."""

    piece: str
    left: str = ""  # empty: no merge; a new word or character
    right: str = ""


def is_of_letters(spelling: bytes) -> bool:
    """Whether a piece consists of letters or parts of letters, perhaps after a space."""
    try:
        text = spelling.removeprefix(b" ").decode()
    except UnicodeDecodeError:
        return True
    return spelling != b"" and all(c.isalpha() or unicodedata.category(c)[0] == "M" for c in text)


def letter_runs(pieces: Iterable[str], spell: Spell) -> Iterator[tuple[str, ...]]:
    """The longest stretches of pieces that new ones may be made of: letters of one word.

    Pieces of single bytes are left out: joined, they would spell `<0xE2><0x80>`, not the bytes.
    """
    run: list[str] = []
    for piece in pieces:
        spelling = spell(piece)
        letters = is_of_letters(spelling) and not BYTE_PIECE.fullmatch(piece)
        if not letters or spelling[:1] == b" ":
            yield tuple(run)
            run = []
        if letters:
            run.append(piece)
    yield tuple(run)


def learn_merges(
    runs: Mapping[tuple[str, ...], int], count: int, *, known: Collection[str], join: Join
) -> list[Merge]:
    """At most `count` merges of neighbours in counted runs, the most frequent first, each counted
    after the merges before it; none results in a piece that is `known`.
    """
    rows, times = [list(run) for run in runs], list(runs.values())
    counts, places = Counter[tuple[str, str]](), defaultdict[tuple[str, str], set[int]](set)
    for number, row in enumerate(rows):
        for pair in pairwise(row):
            counts[pair] += times[number]
            places[pair].add(number)
    heap = [(-frequency, pair) for pair, frequency in counts.items()]
    heapify(heap)
    found: dict[str, Merge] = {}
    while heap and len(found) < count:
        frequency, pair = heappop(heap)
        if -frequency < MIN_COUNT:
            break
        piece = join(*pair)
        if counts[pair] != -frequency or piece in known or len(piece) > MAX_CHARACTERS:
            continue  # an outdated count, which has a newer entry, or not a new piece
        found.setdefault(piece, Merge(piece, *pair))
        changed = set[tuple[str, str]]()
        for number in places.pop(pair):
            before = Counter(pairwise(rows[number]))
            rows[number] = _joined(rows[number], pair, piece)
            after = Counter(pairwise(rows[number]))
            for one in before.keys() | after.keys():
                if difference := after[one] - before[one]:
                    counts[one] += difference * times[number]
                    places[one].add(number)
                    changed.add(one)
        for one in sorted(changed):
            heappush(heap, (-counts[one], one))
    return list(found.values())


def _joined(row: Sequence[str], pair: tuple[str, str], piece: str) -> list[str]:
    """A row of pieces with each occurrence of a pair merged, from the left."""
    joined, place = list[str](), 0
    while place < len(row):
        there = tuple(row[place : place + 2]) == pair
        joined.append(piece if there else row[place])
        place += 2 if there else 1
    return joined


def piece_parts(own: Sequence[Hashable], given: Sequence[Hashable]) -> dict[int, tuple[int, ...]]:
    """For each new row of `own`, named by its bytes, the fewest rows of `given` that spell it."""
    places = {name: place for place, name in enumerate(given) if isinstance(name, bytes) and name}
    found = {}
    for row, name in enumerate(own):
        if isinstance(name, bytes) and name not in places and (parts := _spell_by(name, places)):
            found[row] = parts
    return found


def _spell_by(name: bytes, places: Mapping[bytes, int]) -> tuple[int, ...] | None:
    """The places of the fewest pieces that spell a name; None if there are none."""
    best: list[tuple[int, ...] | None] = [()]  # of the first 0, 1 … bytes
    for end in range(1, len(name) + 1):
        ways = (
            (*before, places[name[start:end]])
            for start, before in enumerate(best)
            if before is not None and name[start:end] in places
        )
        best.append(min(ways, key=len, default=None))
    return best[-1]


# -- models of SentencePiece ----------------------------------------------------------------------


def learn_sentencepiece(
    model: bytes, words: Counter[str], count: int, *, known: Collection[str], spell: Spell
) -> list[Merge]:
    """New pieces of counted words, at most `count`: letters that the model lacks, then merges."""
    old = sentencepiece.SentencePieceProcessor(model_proto=model)
    letters = Counter[str]()
    for word, times in words.items():
        for letter in old.normalize(word):
            letters[letter] += times * (letter not in known and is_of_letters(spell(letter)))
    frequent = letters.most_common(count)
    new = [Merge(letter) for letter, times in frequent if times >= MIN_COUNT]
    processor = sentencepiece.SentencePieceProcessor(model_proto=extend_sentencepiece(model, new))
    all_known = {*known, *(one.piece for one in new)}
    runs = Counter[tuple[str, ...]]()
    for word, times in words.items():
        pieces: list[str] = processor.encode(word, out_type=str)
        for run in letter_runs(pieces, lambda one: spell(one) if one in all_known else b""):
            runs[run] += times
    return new + learn_merges(runs, count - len(new), known=all_known, join=lambda a, b: a + b)


def extend_sentencepiece(model: bytes, merges: Iterable[Merge]) -> bytes:
    """A model with further pieces: it splits a text as before, then merges neighbours. Merges of
    pieces that it lacks are left out.

    A protobuf's repeated field may continue anywhere, so the new pieces are appended.
    """
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    kind = model_type(model)
    ids = range(processor.get_piece_size())
    scores = {processor.id_to_piece(i): processor.get_score(i) for i in ids}
    lowest, added = min(scores.values()), list[bytes]()
    for piece, left, right in merges:
        if piece in scores or (left and not (left in scores and right in scores)):
            continue
        if kind == BPE:  # lower scores merge later
            score = lowest - 1 - len(added)
        else:
            score = scores[left] + scores[right] + MARGIN if left else lowest
        scores[piece] = score
        added.append(_field(1, _field(1, piece.encode()) + struct.pack("<Bf", 0x15, score)))
    return b"".join((model, *added))


def model_type(model: bytes) -> int:
    """`trainer_spec.model_type` of a model; an error for one that cuts at spaces or letters."""
    spec = dict(_fields(model)).get(2, b"")
    found = dict(_fields(spec if isinstance(spec, bytes) else b"")).get(3, UNIGRAM)
    if found not in (UNIGRAM, BPE):
        raise TextError(
            "a model of SentencePiece that cuts texts into words or characters cannot be extended; "
            f"{INSTEAD}"
        )
    return int(found)


def _field(number: int, content: bytes) -> bytes:
    """A field of a protobuf whose content is of any length (wire type 2)."""
    size, length = bytearray(), len(content)
    while length > 0x7F:
        size.append(length & 0x7F | 0x80)
        length >>= 7
    return bytes([number << 3 | 2, *size, length]) + content


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The numbers and values of the fields of a protobuf."""
    place = 0
    while place < len(message):
        key, place = _varint(message, place)
        if key & 7 == 0:
            number, place = _varint(message, place)
            yield key >> 3, number
            continue
        size, place = _varint(message, place) if key & 7 == 2 else ({1: 8, 5: 4}[key & 7], place)
        yield key >> 3, message[place : place + size]
        place += size


def _varint(message: bytes, place: int) -> tuple[int, int]:
    """A number of seven bits a byte, the lowest first, and the place after it."""
    number, shift = 0, 0
    while message[place] & 0x80:
        number |= (message[place] & 0x7F) << shift
        place, shift = place + 1, shift + 7
    return number | message[place] << shift, place + 1
