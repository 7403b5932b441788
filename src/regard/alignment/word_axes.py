"""Words as a dictionary has them, along the sides of a map of attention.

They are what a vocabulary of words is made of: `l'Afrique.` holds `l` and `Afrique`. Marks, on
which heads rest that have nothing to look for, count only where the vocabulary lacks them: then
they too may be what an unknown word of the translation stands for.

A token that is a mere space belongs to the word behind it, for the reason that `Axis` gives.
"""

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

from regard.inspection.recording.attention_map import Axis
from regard.text.special_tokens import EOS, SPECIAL_PIECES, UNK, UNK_SURFACE
from regard.text.tokenizer import Tokenizer
from regard.text.vocab_tokenizers import WordTokenizer


class TokenizedText(NamedTuple):
    """A text in tokens: their ids, and the stretch of the text that each is for."""

    ids: Sequence[int]
    surfaces: Sequence[str]


def tokenize_text(text: str, tokenizer: Tokenizer) -> TokenizedText:
    """`text` in the tokens of a tokenizer."""
    return TokenizedText(tokenizer.encode([text])[0], tokenizer.surfaces(text))


def word_axis(cut: TokenizedText) -> Axis:
    """The words of a text, of one token or of several; EOS comes last."""
    text = "".join(cut.surfaces)
    is_unknown = [
        i == UNK for i, part in zip(*cut, strict=True) for _ in part
    ]  # for each character
    words: list[str] = []
    word_at: list[int | None] = []  # for each character
    for piece in WordTokenizer.split_pieces(text):
        word = piece.lstrip()
        word_at += [None] * (len(piece) - len(word))
        first = len(word_at) - 1  # the first piece begins with a space that the text has not
        is_counted = _is_word(word) or any(is_unknown[first : first + len(word)])
        word_at += [len(words) if is_counted else None] * len(word)
        words += [word] if is_counted else []
    places = accumulate(map(len, cut.surfaces), initial=1)
    numbers = [
        next((number for number in word_at[first:last] if number is not None), None)
        for first, last in pairwise(places)
    ]
    return _axis(cut.surfaces, words, numbers)


def piece_axis(cut: TokenizedText) -> Axis:
    """The tokens of a text, each a word of its own; EOS comes last."""
    words: list[str] = []
    numbers: list[int | None] = []
    for i, surface in zip(*cut, strict=True):
        word = surface.strip()
        is_counted = _is_word(word) or (i == UNK and bool(word))
        numbers.append(len(words) if is_counted else None)
        words += [word] if is_counted else []
    return _axis(cut.surfaces, words, numbers)


def unknown_axis(ids: Sequence[int], tokenizer: Tokenizer) -> Axis:
    """The unknown words among `ids`, and no other; EOS comes last."""
    places = [place for place, i in enumerate(ids) if i == UNK]
    number = {place: order for order, place in enumerate(places)}
    numbers = [number.get(place) for place in range(len(ids))]
    named = zip(tokenizer.pieces(ids), tokenizer.word_ids(ids), strict=True)
    pieces = [" " if word is None else piece for piece, word in named]
    return _axis(pieces, [UNK_SURFACE] * len(places), numbers)


def _is_word(text: str) -> bool:
    return any(character.isalnum() for character in text)


def _axis(pieces: Sequence[str], words: Sequence[str], numbers: Sequence[int | None]) -> Axis:
    word_of: list[int | None] = [None]  # from the last to the first
    for piece, number in zip(reversed(pieces), reversed(numbers), strict=True):
        word_of.append(number if piece.strip() else word_of[-1])
    return Axis((*pieces, SPECIAL_PIECES[EOS]), tuple(words), tuple(reversed(word_of)))
