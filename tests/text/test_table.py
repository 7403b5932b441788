import pytest

from regard.text.build import TokenizerSettings
from regard.text.vocab_tokenizers import CharacterTokenizer, WordTokenizer


def characters(*pieces):
    return CharacterTokenizer(pieces, TokenizerSettings(kind="characters"))


@pytest.mark.parametrize(
    ("piece", "shown"),
    [
        ("é", "é"),
        (" ", "▁"),
        ("\n", "<0x0A>"),
        ("\x1b", "<0x1B>"),
        ("\u00a0", "<0xC2><0xA0>"),
        ("\u200d", "\u200d"),
        ("👍", "👍"),
    ],
)
def test_pieces_are_shown_so_that_they_can_be_seen(piece, shown):
    assert characters(piece).pieces([4]) == [shown]


def test_size_counts_the_special_pieces():
    assert characters("a", "b", "c").size == 7


def test_fingerprint_depends_on_where_one_piece_ends():
    assert characters("ab", "c").fingerprint() != characters("a", "bc").fingerprint()


def test_fingerprint_depends_on_the_kind():
    words = WordTokenizer((" ", "a"), TokenizerSettings(kind="words"))
    assert words.fingerprint() != characters(" ", "a").fingerprint()
