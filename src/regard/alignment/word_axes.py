"""Axes of attention maps by words as dictionaries list them: `l'Afrique.` has two.

Punctuation, often an attention sink, is a word only if the vocabulary lacks it: an unknown word of
the translation may stand for it. A piece of white space belongs to the word after it (see `Axis`).
"""

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

from regard.inspection.recording.attention_map import Axis
from regard.text.special_tokens import EOS, SPECIAL_PIECES, UNK, UNK_SURFACE
from regard.text.tokenizer import Tokenizer, WordTokenizer


class TokenizedText(NamedTuple):
    """A text as token ids, and the substring of the text that each stands for."""

    ids: Sequence[int]
    surfaces: Sequence[str]


def tokenize_text(text: str, tokenizer: Tokenizer) -> TokenizedText:
    """`text` in the tokens of a tokenizer."""
    return TokenizedText(tokenizer.encode([text])[0], tokenizer.surfaces(text))


def word_axis(tokens: TokenizedText) -> Axis:
    """The words of a text, of one or more tokens each; EOS comes last."""
    is_unknown = [i == UNK for i, surface in zip(*tokens, strict=True) for _ in surface]
    words: list[str] = []
    word_at: list[int | None] = []  # for each character
    for piece in WordTokenizer.split_pieces("".join(tokens.surfaces)):
        word = piece.lstrip()
        word_at += [None] * (len(piece) - len(word))
        first = len(word_at) - 1  # the first piece begins with a space that is not in the text
        is_counted = _is_word(word) or any(is_unknown[first : first + len(word)])
        word_at += [len(words) if is_counted else None] * len(word)
        words += [word] if is_counted else []
    return _axis(tokens.surfaces, words, words_of_tokens(word_at[1:], tokens.surfaces))


def words_of_tokens(word_at: Sequence[int | None], surfaces: Sequence[str]) -> list[int | None]:
    """The first word with a character in each token, given the word of each character."""
    ends = accumulate(map(len, surfaces), initial=0)
    return [
        next((number for number in word_at[first:last] if number is not None), None)
        for first, last in pairwise(ends)
    ]


def piece_axis(tokens: TokenizedText) -> Axis:
    """The tokens of a text, each a word of its own; EOS comes last."""
    words: list[str] = []
    word_of: list[int | None] = []
    for i, surface in zip(*tokens, strict=True):
        word = surface.strip()
        is_counted = _is_word(word) or (i == UNK and bool(word))
        word_of.append(len(words) if is_counted else None)
        words += [word] if is_counted else []
    return _axis(tokens.surfaces, words, word_of)


def unknown_axis(ids: Sequence[int], tokenizer: Tokenizer) -> Axis:
    """Only the unknown words among `ids`; EOS comes last."""
    counts = accumulate(i == UNK for i in ids)
    word_of = [count - 1 if i == UNK else None for i, count in zip(ids, counts, strict=True)]
    named = zip(tokenizer.pieces(ids), tokenizer.word_ids(ids), strict=True)
    pieces = [" " if word is None else piece for piece, word in named]
    return _axis(pieces, [UNK_SURFACE] * list(ids).count(UNK), word_of)


def _is_word(text: str) -> bool:
    return any(character.isalnum() for character in text)


def _axis(pieces: Sequence[str], words: Sequence[str], word_of: Sequence[int | None]) -> Axis:
    """The axis, with pieces of white space given to the word after them."""
    reversed_words: list[int | None] = [None]  # of EOS
    for piece, word in zip(reversed(pieces), reversed(word_of), strict=True):
        reversed_words.append(word if piece.strip() else reversed_words[-1])
    return Axis((*pieces, SPECIAL_PIECES[EOS]), tuple(words), tuple(reversed(reversed_words)))
