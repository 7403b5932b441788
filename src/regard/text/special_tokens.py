"""The four tokens that every vocabulary begins with, and pieces that stand for spaces and bytes."""

import re

PAD, UNK, BOS, EOS = range(4)  # filler, unknown, begin and end of sentence, in every tokenizer

SPECIAL_PIECES = ("<pad>", "<unk>", "<s>", "</s>")  # how they are written, in the order of ids

REPLACEMENT_CHARACTER = "\ufffd"  # written for what could not be decoded
UNK_SURFACE = "⁇"  # shown to users in place of an unknown piece

SPACE = "▁"  # how pieces of SentencePiece spell one
LINE_END = "<0x0A>"
BYTE_PIECE = re.compile(r"<0x([0-9A-F]{2})>")  # one byte of a character that has no piece


def legible_piece(piece: str) -> str:
    """A piece as the viewer shows it: without the mark of a space before it."""
    return "↵" if piece == LINE_END else piece.replace(SPACE, " ").strip() or "␣"


def token_labels(size: int) -> list[str]:
    """A string for each id, for engines that read strings: special pieces, then numbers."""
    return [*SPECIAL_PIECES, *map(str, range(len(SPECIAL_PIECES), size))]


def spell_piece(piece: str) -> bytes:
    """The text of a piece of SentencePiece."""
    if byte := BYTE_PIECE.fullmatch(piece):
        return bytes([int(byte[1], 16)])
    return piece.replace(SPACE, " ").encode()
