import pytest

from regard.alignment.word_axes import piece_axis, tokenize_text, unknown_axis, word_axis
from regard.text.build import train_tokenizer
from regard.text.settings import TokenizerSettings
from regard.text.special_tokens import UNK

TEXTS = ["Jane visite l'Afrique en mai.", "Paul aime la mer !"] * 5


def tokenizer(kind="words", **changes):
    return train_tokenizer(TEXTS, TokenizerSettings(kind=kind, **changes))


def pieces_by_word(axis):
    """The pieces of each word."""
    found = {word: "" for word in axis.words}
    for piece, number in zip(axis.pieces, axis.word_of, strict=True):
        if number is not None:
            found[axis.words[number]] += piece
    return found


def test_words_without_marks():
    axis = word_axis(tokenize_text("Jane visite l'Afrique.", tokenizer()))
    assert axis.pieces == ("Jane", " visite", " l", "'", "Afrique", ".", "</s>")
    assert axis.words == ("Jane", "visite", "l", "Afrique")
    assert axis.word_of == (0, 1, 2, None, 3, None, None)


def test_an_unknown_word_has_its_space():
    axis = word_axis(tokenize_text("Zoé visite Kampala.", tokenizer()))
    assert axis.pieces == ("", "Zoé", " visite", " ", "Kampala", ".", "</s>")
    assert axis.words == ("Zoé", "visite", "Kampala")
    assert axis.word_of == (0, 0, 1, 2, 2, None, None)


def test_a_mark_counts_where_it_is_unknown():
    axis = word_axis(tokenize_text("Paul : €.", tokenizer()))
    assert axis.words == ("Paul", ":", "€")
    assert axis.word_of == (0, 1, 1, 2, 2, None, None)


@pytest.mark.parametrize("kind", ["words", "characters", "bpe", "unigram"])
@pytest.mark.parametrize("text", ["Jane visite l'Afrique.", "Ω Jane  aime Ωmegα, l'été\u00a0!", ""])
def test_words_are_the_same_however_they_are_cut(kind, text):
    size = {} if kind in ("words", "characters") else {"size": 300}
    axis = word_axis(tokenize_text(text, tokenizer(kind, **size)))
    known = {"Jane", "visite", "l", "Afrique", "aime", "Ω", "Ωmegα", "été"}
    assert known >= {word for word in axis.words if word.isalnum()}
    for word, pieces in pieces_by_word(axis).items():
        assert pieces.strip().startswith(word)


def test_every_byte_of_a_word_is_its_own():
    axis = word_axis(tokenize_text("mer Ω", tokenizer("bpe", size=300)))
    assert axis.words == ("mer", "Ω")
    assert axis.pieces[-4:] == (" ", "", "Ω", "</s>")
    assert axis.word_of[-4:] == (1, 1, 1, None)


def test_pieces_are_words_of_their_own():
    axis = piece_axis(tokenize_text("Ω mer.", tokenizer("characters")))
    assert axis.words == ("Ω", "m", "e", "r")
    assert axis.word_of == (0, 1, 1, 2, 3, None, None)


def test_unknown_words_alone():
    words = tokenizer()
    [ids] = words.encode(["Kampala aime la€"])
    assert [i == UNK for i in ids] == [False, True, False, False, True]
    axis = unknown_axis(ids, words)
    assert axis.words == ("⁇", "⁇")
    assert axis.word_of == (0, 0, None, None, 1, None)
    assert unknown_axis([], words).word_of == (None,)
