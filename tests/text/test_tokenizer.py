import json

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from regard.errors import StorageError, TextError
from regard.text.build import load_tokenizer, train_tokenizer
from regard.text.settings import TokenizerSettings
from regard.text.special_tokens import UNK
from regard.text.tokenizer import CharacterTokenizer, WordTokenizer, normalize
from text.lessons import KINDS, learned


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


@pytest.mark.parametrize(
    ("form", "lowercase", "expected"),
    [
        ("none", False, "E\u0301 ﬁ Ⅷ"),
        ("nfc", False, "É ﬁ Ⅷ"),
        ("nfkc", False, "É fi VIII"),
        ("none", True, "e\u0301 ﬁ ⅷ"),
        ("nfc", True, "é ﬁ ⅷ"),
        ("nfkc", True, "é fi viii"),
    ],
)
def test_forms(form, lowercase, expected):
    assert normalize("E\u0301 ﬁ Ⅷ", form, lowercase=lowercase) == expected


def test_capitals_that_the_form_brings_become_small():
    assert normalize("ℌ", "nfkc", lowercase=True) == "h"


@hypothesis_settings(max_examples=300, deadline=None)
@given(text=st.text(), form=st.sampled_from(["none", "nfc", "nfkc"]), lowercase=st.booleans())
def test_twice_is_once(text, form, lowercase):
    once = normalize(text, form, lowercase=lowercase)
    assert normalize(once, form, lowercase=lowercase) == once


@pytest.mark.parametrize("half", [0xD800, 0xDC80, 0xDFFF])
def test_half_a_surrogate_pair_is_refused_with_its_place(half):
    with pytest.raises(TextError, match="as character 3 of 4, which UTF-8 cannot encode; read"):
        normalize(f"ab{chr(half)}c", "nfc", lowercase=False)


def damaged(folder, kind, **changes):
    """A saved tokenizer, then its card with some keys changed."""
    learned(kind).save(folder, "it")
    card = json.loads((folder / "it.json").read_text())
    (folder / "it.json").write_text(json.dumps(card | changes))
    return folder


@pytest.mark.parametrize("kind", KINDS)
def test_a_missing_card_is_named(kind, tmp_path):
    with pytest.raises(TextError, match=r"it\.json: missing; give the folder"):
        load_tokenizer(tmp_path, "it")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b"\xff\xfe", b'{"version": 1, "sett'])
def test_a_damaged_card_is_named(kind, content, tmp_path):
    learned(kind).save(tmp_path, "it")
    (tmp_path / "it.json").write_bytes(content)
    with pytest.raises(
        TextError, match=r"it\.json: not a tokenizer .* or damaged: .* train it again"
    ):
        load_tokenizer(tmp_path, "it")


@pytest.mark.parametrize("kind", KINDS)
def test_every_cut_of_a_card_is_noticed(kind, tmp_path):
    learned(kind).save(tmp_path, "it")
    whole = (tmp_path / "it.json").read_bytes()
    for length in range(0, len(whole.rstrip()), 37):
        (tmp_path / "it.json").write_bytes(whole[:length])
        with pytest.raises(TextError, match="damaged"):
            load_tokenizer(tmp_path, "it")


def test_a_card_of_another_version_is_refused(tmp_path):
    with pytest.raises(TextError, match=r"this version of regard.*: version: must be 1"):
        load_tokenizer(damaged(tmp_path, "words", version=2), "it")


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [
        ("words", {"pieces": None}, "kind words needs pieces and nothing else"),
        ("words", {"model_sha256": "00"}, "kind words needs pieces and nothing else"),
        ("bpe", {"model_sha256": None}, "kind bpe needs model_sha256 and nothing else"),
        ("bpe", {"pieces": ["a"]}, "kind bpe needs model_sha256 and nothing else"),
        ("characters", {"pieces": ["a", "b", "a"]}, "a piece is empty or listed twice"),
        ("characters", {"pieces": ["a", ""]}, "a piece is empty or listed twice"),
        ("characters", {"settings": {"kind": "letters"}}, r"settings\.kind: must be"),
    ],
)
def test_a_card_that_no_tokenizer_wrote_is_refused(kind, changes, message, tmp_path):
    with pytest.raises(TextError, match=message):
        load_tokenizer(damaged(tmp_path, kind, **changes), "it")


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_a_model_that_does_not_match_its_card_is_noticed(kind, tmp_path):
    learned(kind).save(tmp_path, "it")
    model = tmp_path / "it.model"
    whole = model.read_bytes()
    for content in (b"", whole[:-1], whole[:100] + b"\0" + whole[101:]):
        model.write_bytes(content)
        with pytest.raises(TextError, match=r"it\.model: damaged, or not the model that it\.json"):
            load_tokenizer(tmp_path, "it")
    model.unlink()
    with pytest.raises(TextError, match=r"it\.model: missing"):
        load_tokenizer(tmp_path, "it")


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    (tmp_path / "it.json").mkdir()
    with pytest.raises(TextError, match=r"it\.json: cannot be read: not a plain file"):
        load_tokenizer(tmp_path, "it")


@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_that_takes_no_files_is_named(kind, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="file: not a folder, which is needed there"):
        learned(kind).save(tmp_path / "file", "it")


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_else_is_left_in_the_folder(kind, tmp_path):
    for _ in range(2):
        learned(kind).save(tmp_path, "it")
    endings = {path.suffix for path in tmp_path.iterdir()}
    assert endings == ({".json", ".model"} if kind in ("bpe", "unigram") else {".json"})


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


def test_white_space_separates_words_that_were_tokenised_before():
    tokenizer = train_tokenizer(
        ["it was n't <unk> , N %", "it was"], TokenizerSettings(kind="whitespace", size=0)
    )
    assert tokenizer.size == 4 + 6
    [ids] = tokenizer.encode(["it <unk> n't mars ,"])
    assert tokenizer.pieces(ids) == ["▁it", "<unk>", "▁n't", "<unk>", "▁,"]
    assert tokenizer.decode(ids) == "it ⁇ n't ⁇ ,"
    assert tokenizer.decode(ids, tokenizer.surfaces("it <unk> n't mars ,")[1::2]) == (
        "it <unk> n't mars ,"
    )
