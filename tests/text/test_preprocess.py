import pytest

from regard.text.build import train_tokenizer
from regard.text.preprocess import (
    part_id,
    part_index,
    replace_unknown_spaces,
    require_texts,
    sanitize,
    split_long,
    tokenize_lines,
)
from regard.text.segmentation import VERBATIM, InputSettings
from regard.text.settings import TokenizerSettings
from regard.text.special_tokens import UNK

TEXTS = ["Jane visits Africa. Paul stays at home!", "the cat sat on the mat; the dog did not"] * 5


def tokenize_line(text, tokenizer, limit):
    return tokenize_lines([text], tokenizer, limit)[0]


@pytest.fixture(scope="module")
def words():
    return train_tokenizer(TEXTS, TokenizerSettings(kind="words"))


@pytest.fixture(scope="module")
def subwords():
    return train_tokenizer(TEXTS, TokenizerSettings(kind="bpe", size=330))


@pytest.mark.parametrize("text", ["", " ", "\t", "  \u3000 ", "\u2028", "\u00a0"])
def test_a_blank_line_has_no_parts(subwords, text):
    line = tokenize_line(text, subwords, 50)
    assert (line.parts, line.notes) == ([], [])


def test_a_plain_line_is_one_part_without_notes(subwords):
    line = tokenize_line("  Jane visits Africa.\t", subwords, 50)
    assert line.parts == subwords.encode(["Jane visits Africa."])
    assert line.notes == []


@pytest.mark.parametrize("space", ["\u00a0", "\t", "\u3000", "\u202f"])
def test_white_space_that_is_unknown_parts_words(words, space):
    line = tokenize_line(f"Jane{space}visits Africa.", words, 50)
    assert line.parts == words.encode(["Jane visits Africa."])
    assert line.notes == []


def test_white_space_that_is_known_stays():
    known = train_tokenizer(["Jane\u00a0visits"] * 5, TokenizerSettings(kind="characters"))
    assert replace_unknown_spaces("a\u00a0b\u3000c", known) == "a\u00a0b c"


def test_a_verbatim_text_stays_as_it_is():
    text = " Jane\u00a0 visits.\x07\n\tPaul. 1. 😀 "
    known = train_tokenizer([text] * 5, TokenizerSettings(kind="characters", form="none"))
    line = tokenize_lines([text, " \n"], known, 50, VERBATIM)
    assert (line[0].parts, line[0].texts) == (known.encode([text]), [text])
    assert not any("control" in note for note in line[0].notes)
    assert (line[1].parts, line[1].segments.join([])) == ([], " \n")
    with pytest.raises(ValueError, match="verbatim needs split_sentences: false"):
        InputSettings(verbatim=True)


def test_control_characters_are_spaces(subwords):
    line = tokenize_line("Jane\x00visits\x07 Africa.\r", subwords, 50)
    assert line.parts == subwords.encode(["Jane visits  Africa."])
    assert line.texts == ["Jane visits  Africa."]
    assert line.notes == ["has control characters (3), which were read as spaces"]


def test_nothing_but_control_characters_is_blank_with_a_note(subwords):
    line = tokenize_line("\x00\x01", subwords, 50)
    assert line.parts == []
    assert line.notes == ["has control characters (2), which were read as spaces"]


def test_what_could_not_be_read_is_told(subwords):
    line = tokenize_line("caf\ufffd \ufffd", subwords, 50)
    assert line.notes[0] == "has U+FFFD (2) in place of unreadable characters; is it UTF-8?"
    assert line.parts


def test_unknown_words_are_counted(words):
    line = tokenize_line("Jane visits Mars", words, 50)
    [ids] = line.parts
    assert ids.count(UNK) == 1
    assert line.notes == [f"not in the model's vocabulary: 1 of its {len(ids)} tokens"]


def test_spelled_bytes_count_as_unknown(subwords):
    line = tokenize_line("Jane 😀", subwords, 50)
    assert line.notes == [f"not in the model's vocabulary: 4 of its {len(line.parts[0])} tokens"]


def test_a_long_line_comes_in_parts_with_a_note(words):
    text = "the cat sat on the mat; " * 4
    [ids] = words.encode([text.strip()])
    line = tokenize_line(text, words, 20)
    assert [token for part in line.parts for token in part] == ids
    assert all(0 < len(part) <= 20 for part in line.parts)
    assert line.notes == [
        f"{len(ids)} tokens are more than the model was trained for (20); translated in "
        f"{len(line.parts)} parts"
    ]


def test_a_line_as_long_as_the_limit_is_whole(words):
    [ids] = words.encode(["the cat sat"])
    assert split_long(ids, words, len(ids)) == [ids]


def test_lines_are_cut_behind_a_sentence_if_one_ends_late_enough(words):
    [ids] = words.encode(["Jane visits Africa. Paul stays at home! the cat"])
    parts = split_long(ids, words, len(ids) - 2)
    assert [words.decode(part).strip() for part in parts] == [
        "Jane visits Africa. Paul stays at home!",
        "the cat",
    ]


def test_otherwise_behind_a_word(subwords):
    text = "the cat sat on the mat the dog did not sit on the mat"
    [ids] = subwords.encode([text])
    parts = split_long(ids, subwords, 9)
    assert len(parts) > 1
    cut = [subwords.decode(part).strip() for part in parts]
    assert " ".join(cut) == text


def test_a_word_longer_than_the_limit_is_cut_inside(subwords):
    [ids] = subwords.encode(["x" * 100])
    parts = split_long(ids, subwords, 7)
    assert [token for part in parts for token in part] == ids
    assert max(map(len, parts)) <= 7


def test_a_part_of_nothing_is_no_part(words):
    with pytest.raises(ValueError, match="a part must have at least one token, got limit=0"):
        split_long([5, 6], words, 0)


def test_mending_replaces_halves_of_characters():
    assert sanitize("a\ud83db\udcff") == "a\ufffdb\ufffd"
    assert sanitize("plain 😀") == "plain 😀"


def test_a_part_is_known_by_one_number():
    places = [(0, 0), (0, 1), (0, 7), (1, 0), (3, 2)]
    numbers = [part_id(*place) for place in places]
    assert len(set(numbers)) == len(places)
    assert [part_index(number) for number in numbers] == places


def test_one_text_is_no_list_of_texts():
    require_texts("texts", ["a", "b"])
    require_texts("texts", ("a",))
    with pytest.raises(
        TypeError,
        match=r"texts must be a list of texts \(str\), got str; for one text give \[text\]",
    ):
        require_texts("texts", "ab")
    with pytest.raises(TypeError, match=r"names must be a list of texts .* got NoneType, bytes"):
        require_texts("names", ["a", b"b", None])
