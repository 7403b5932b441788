import pytest

from regard.errors import TextError
from regard.text.build import train_tokenizer
from regard.text.settings import TokenizerSettings
from regard.text.special_tokens import UNK
from regard.text.vocab_tokenizers import CharacterTokenizer, WordTokenizer


def words(*texts, **settings):
    return train_tokenizer(texts, TokenizerSettings(kind="words", **settings))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("Jane's in 2024.", [" Jane", "'", "s", " in", " 2024", "."]),
        ("(a) b", [" (", "a", ")", " b"]),
        ("a  b ", [" a", " ", " b", " "]),
        (" a", [" ", " a"]),
        ("\ta\n\nb", [" ", "\t", "a", "\n", "\n", "b"]),
        ("wait...", [" wait", ".", ".", "."]),
        ("हिन्दी में", [" हिन्दी", " में"]),
        ("e\u0301te\u0301 x", [" e\u0301te\u0301", " x"]),
        ("می‌روم", [" می‌روم"]),
        ("a▁b", [" a", "▁", "b"]),
    ],
)
def test_words_are_cut_from_marks_and_keep_one_space(text, expected):
    assert WordTokenizer.split_pieces(text) == expected
    assert "".join(expected).removeprefix(" ") == text


def test_pieces_are_sorted_by_count_then_by_letter():
    tokenizer = words("b c a b", "c")
    assert tokenizer.pieces(range(4, tokenizer.size)) == ["▁", "▁b", "▁c", "▁a"]
    tokenizer = train_tokenizer(["cabbc"], TokenizerSettings(kind="characters"))
    assert tokenizer.pieces(range(4, tokenizer.size)) == ["b", "c", "a"]


def test_size_keeps_the_most_frequent_and_min_count_the_frequent_enough():
    assert words("a b b c c c", size=7).pieces([4, 5, 6]) == ["▁", "▁c", "▁b"]
    assert words("a b b c c c", size=7).size == 7
    assert words("a b b c c c", min_count=2, size=0).pieces([4, 5, 6]) == ["▁", "▁c", "▁b"]
    assert words("a b b c c c", min_count=2, size=0).size == 7
    assert words("a b b c c c", size=100).size == words("a b b c c c", size=0).size == 8


def test_an_unknown_word_is_one_unknown_and_keeps_its_space():
    tokenizer = words("the cat sat (here).")
    text = "the zebra sat (there)."
    [ids] = tokenizer.encode([text])
    assert tokenizer.pieces(ids) == ["▁the", "▁", "<unk>", "▁sat", "▁(", "<unk>", ")", "."]
    assert tokenizer.decode(ids) == "the ⁇ sat (⁇)."
    assert tokenizer.word_ids(ids) == [0, None, 1, 2, 3, 3, 3, 3]


def test_a_word_known_without_a_space_is_known_behind_one():
    tokenizer = words("l'Afrique")
    [ids] = tokenizer.encode(["l Afrique"])
    assert tokenizer.pieces(ids) == ["▁l", "▁", "Afrique"]
    assert tokenizer.decode(ids) == "l Afrique"


def test_an_unknown_space_is_unknown():
    tokenizer = words("a b")
    assert tokenizer.encode(["a\tb"])[0][1] == UNK


def test_an_unknown_character_is_shown_as_such():
    tokenizer = train_tokenizer(["abc"], TokenizerSettings(kind="characters"))
    [ids] = tokenizer.encode(["abxc"])
    assert tokenizer.decode(ids) == "ab⁇c"


def test_too_high_a_min_count_is_an_error():
    expected = (
        r"none of the characters occurs min_count=4 times in the training text "
        r"\(at most 3 times\); lower min_count"
    )
    with pytest.raises(TextError, match=expected):
        CharacterTokenizer.train(["aab", "a"], TokenizerSettings(kind="characters", min_count=4))
