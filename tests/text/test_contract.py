"""What every tokenizer must do, run on every kind."""

import copy
import itertools
import pickle

import pytest
from hypothesis import assume, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from regard.errors import TextError
from regard.text.build import load_tokenizer, train_tokenizer
from regard.text.settings import TokenizerSettings
from regard.text.special_tokens import BOS, EOS, PAD, SPECIAL_PIECES, UNK
from regard.text.tokenizer import normalize
from regard.text.word_units import has_unspaced, merge_units
from text.lessons import KINDS, SUBWORDS, TEXTS, learned, sampled

quick = hypothesis_settings(max_examples=60, deadline=None)
every_kind = pytest.mark.parametrize("kind", KINDS)

FRAGMENTS = sorted({word for text in TEXTS for word in text.split()}) + list(
    " \t\n\r\0\x1c\x85\u00a0\u2003\u3000▁▅⁇\ufffd\ufdd0\ufdd1\ufdd2\u200d\u0301é"
)
texts = st.lists(st.sampled_from(FRAGMENTS) | st.just(" ") | st.text(), max_size=12).map("".join)
numbers = st.lists(st.integers(0), max_size=30)


def check_words(tokenizer, ids):
    """Each word has its tokens, in order, and no token has a word that is not there."""
    text, numbered = tokenizer.decode(ids), tokenizer.word_ids(ids)
    assert len(numbered) == len(ids)
    found = [number for number in numbered if number is not None]
    assert found == sorted(found)
    merged = merge_units(text, found)  # letters that one token has together are one word
    assert {merged.word_of[number] for number in found} == set(range(len(merged.words)))
    if not has_unspaced(text):
        assert set(found) == set(range(len(text.split())))


@every_kind
@quick
@given(text=texts)
def test_text_comes_back_normalised(kind, text):
    tokenizer = learned(kind)
    [ids] = tokenizer.encode([text])
    assert not {PAD, BOS, EOS} & {*ids}
    if kind in SUBWORDS:
        assert UNK not in ids
    if UNK not in ids:
        assert tokenizer.decode(ids) == normalize(text, "nfc", lowercase=False)


@every_kind
@pytest.mark.parametrize("text", sorted({*TEXTS}))
def test_what_was_taught_is_known(kind, text):
    tokenizer = learned(kind)
    [ids] = tokenizer.encode([text])
    assert UNK not in ids
    assert tokenizer.decode(ids) == text


@every_kind
@quick
@given(text=texts)
def test_words_are_those_of_the_decoded_text(kind, text):
    tokenizer = learned(kind)
    check_words(tokenizer, tokenizer.encode([text])[0])


@every_kind
@quick
@given(numbers=numbers)
def test_words_of_ids_that_no_text_gives(kind, numbers):
    tokenizer = learned(kind)
    check_words(tokenizer, [number % tokenizer.size for number in numbers])


@every_kind
def test_words_of_a_plain_sentence(kind):
    tokenizer = learned(kind)
    [ids] = tokenizer.encode(["Jane visite l'Afrique en septembre !"])
    by_word = [
        tokenizer.decode([i for i, _ in group]).strip()
        for number, group in itertools.groupby(
            zip(ids, tokenizer.word_ids(ids), strict=True), key=lambda pair: pair[1]
        )
        if number is not None
    ]
    assert by_word == ["Jane", "visite", "l'Afrique", "en", "septembre", "!"]


@every_kind
@pytest.mark.parametrize("lossless", [True, False])
@quick
@given(text=texts)
def test_every_id_has_its_stretch_of_the_text(kind, lossless, text):
    assume(not {"\ufdd0", "\ufdd1"} & {*text})  # two characters each inside a subword vocabulary
    changes = {"byte_fallback": False} if kind in SUBWORDS and not lossless else {}
    tokenizer = learned(kind, **changes)
    [ids] = tokenizer.encode([text])
    surfaces = tokenizer.surfaces(text)
    normal = normalize(text, "nfc", lowercase=False)
    assert len(surfaces) == len(ids)
    alike = all(len(normalize(one, "nfc", lowercase=False)) == 1 for one in text)
    assert "".join(surfaces) == (text if alike and len(text) == len(normal) else normal)
    unknown = [part for part, i in zip(surfaces, ids, strict=True) if i == UNK]
    assert tokenizer.decode(ids, unknown) in (text, normal)


@every_kind
@pytest.mark.parametrize("text", ["JANE visits Mars", "jane Visits e\u0301te\u0301", ""])
def test_surfaces_keep_their_capitals(kind, text):
    tokenizer = learned(kind, lowercase=True)
    surfaces = tokenizer.surfaces(text)
    assert len(surfaces) == len(tokenizer.encode([text])[0])
    shorter = len(normalize(text, "nfc", lowercase=True)) < len(text)
    assert "".join(surfaces) == ("jane visits été" if shorter else text)


@every_kind
def test_surfaces_do_not_slip_where_lengths_agree_by_chance(kind):
    text = "\u0958 e\u0301"  # one character that is made two, and two that are made one
    normal = normalize(text, "nfc", lowercase=False)
    assert len(normal) == len(text)
    assert "".join(learned(kind).surfaces(text)) == normal


@every_kind
def test_what_is_unknown_can_be_said(kind):
    tokenizer = learned(kind)
    [ids] = tokenizer.encode(["Jane visits Africa"])
    first, *others = ids
    cut = [UNK, *others[:1], first, UNK]
    assert tokenizer.decode(cut).count("⁇") == 2
    said = tokenizer.decode(cut, ["New York", "▁Ω"])
    assert said.startswith("New York")
    assert said.endswith("▁Ω")
    words = tokenizer.word_ids(cut, ["New York", "▁Ω"])
    assert words[0] == 0
    assert words[-1] == len(said.split()) - 1
    with pytest.raises(ValueError, match="zip"):
        tokenizer.decode(cut, ["one"])


@every_kind
def test_pieces_show_the_text_with_a_sign_for_spaces(kind):
    tokenizer = learned(kind)
    [ids] = tokenizer.encode(["Jane visits  Africa"])
    assert "".join(tokenizer.pieces(ids)).removeprefix("▁") == "Jane▁visits▁▁Africa"
    assert len(tokenizer.pieces(ids)) == len(ids)


@every_kind
def test_special_ids_are_shown_but_not_spelled(kind):
    tokenizer = learned(kind)
    [ids] = tokenizer.encode(["Jane visits"])
    framed = [BOS, *ids, EOS, PAD, PAD]
    assert tokenizer.decode(framed) == "Jane visits"
    assert tokenizer.word_ids(framed) == [None, *tokenizer.word_ids(ids), None, None, None]
    assert tokenizer.pieces(range(4)) == list(SPECIAL_PIECES)
    space = " " if kind == "whitespace" else ""  # an unknown word has its space with it
    assert tokenizer.decode([*ids, UNK]) == f"Jane visits{space}⁇"


@every_kind
def test_a_text_cut_behind_line_ends_has_the_same_ids(kind):
    tokenizer = learned(kind)
    first, *others = lines = ["Jane\n", "  visits\n", "\n", "Africa in  September.\n", " !"]
    parts = tokenizer.encode([first]) + tokenizer.encode_continued(others)
    [ids] = tokenizer.encode(["".join(lines)])
    assert [i for part in parts for i in part] == ids


@every_kind
def test_nothing_is_nothing(kind):
    tokenizer = learned(kind)
    assert tokenizer.encode([]) == sampled(tokenizer, [], 1) == []
    assert tokenizer.encode(["", "Jane", ""])[::2] == [[], []]
    assert tokenizer.decode([]) == ""
    assert tokenizer.word_ids([]) == tokenizer.pieces([]) == []


@every_kind
def test_many_texts_give_what_each_gives_alone(kind):
    tokenizer = learned(kind)
    many = [f"{text} {number}" for number in range(150) for text in TEXTS[:7]]
    assert len(many) == 1050
    alone = [tokenizer.encode([text])[0] for text in many]
    assert tokenizer.encode(many) == alone
    assert tokenizer.encode(many[:200]) == alone[:200]  # neither few nor many


@every_kind
def test_ids_outside_the_vocabulary_are_refused(kind):
    tokenizer = learned(kind)
    for ask in (tokenizer.decode, tokenizer.pieces, tokenizer.word_ids):
        for wrong in (-1, tokenizer.size):
            last = tokenizer.size - 1
            with pytest.raises(ValueError, match=f"id {wrong} is not in .* ids 0 to {last}$"):
                ask([UNK, wrong])


@every_kind
def test_text_that_is_no_unicode_is_refused(kind):
    tokenizer = learned(kind)
    with pytest.raises(TextError, match=r"'\\ud800', as character 2 of 3"):
        tokenizer.encode(["a", "a\ud800b"])
    with pytest.raises(TextError, match="surrogate"):
        train_tokenizer(["a\udfffb"], TokenizerSettings(kind=kind))


@every_kind
def test_text_is_normalised_before_it_is_cut(kind):
    tokenizer = learned(kind, lowercase=True, form="nfkc")
    [ids] = tokenizer.encode(["ＪＡＮＥ visite l'e\u0301te\u0301."])
    assert UNK not in ids
    assert tokenizer.decode(ids) == "jane visite l'été."


@every_kind
def test_form_none_keeps_both_spellings_apart(kind):
    tokenizer = train_tokenizer(
        ["été e\u0301te\u0301"], TokenizerSettings(kind=kind, size=300, form="none")
    )
    one, other = tokenizer.encode(["été", "e\u0301te\u0301"])
    assert one != other
    assert tokenizer.decode(other) == "e\u0301te\u0301"


@every_kind
def test_saving_and_loading_changes_nothing(kind, tmp_path):
    tokenizer = learned(kind, **({"sampling": 0.3} if kind in SUBWORDS else {}))
    tokenizer.save(tmp_path / "new", "both")
    loaded = load_tokenizer(tmp_path / "new", "both")
    assert type(loaded) is type(tokenizer)
    assert loaded.settings == tokenizer.settings
    assert loaded.fingerprint() == tokenizer.fingerprint()
    assert loaded.encode(TEXTS) == tokenizer.encode(TEXTS)
    assert sampled(loaded, TEXTS, 7) == sampled(tokenizer, TEXTS, 7)
    ids = range(tokenizer.size)
    assert loaded.pieces(ids) == tokenizer.pieces(ids)
    assert loaded.decode(ids) == tokenizer.decode(ids)


@every_kind
def test_a_copy_for_another_process_is_the_same(kind):
    tokenizer = learned(kind)
    for twin in (pickle.loads(pickle.dumps(tokenizer)), copy.deepcopy(tokenizer)):
        assert twin.fingerprint() == tokenizer.fingerprint()
        assert twin.encode(TEXTS) == tokenizer.encode(TEXTS)


@every_kind
def test_the_same_texts_make_the_same_tokenizer(kind):
    tokenizer = learned(kind)
    again = train_tokenizer(iter(TEXTS), tokenizer.settings)
    assert again is not tokenizer
    assert again.fingerprint() == tokenizer.fingerprint()


@every_kind
def test_fingerprints_tell_tokenizers_apart(kind):
    changes = [{}, {"form": "nfkc"}, {"lowercase": True}]
    if kind in SUBWORDS:
        changes += [{"sampling": 0.1}, {"sampling": 0.2}, {"size": 350}, {"byte_fallback": False}]
    else:
        changes += [{"min_count": 6}, {"size": 11}]
    prints = [learned(kind, **change).fingerprint() for change in changes]
    plain = ["elle danse"]  # of which all settings learn the same pieces
    prints += [
        train_tokenizer(plain, TokenizerSettings(kind=kind, **change)).fingerprint()
        for change in changes
        if "size" not in change and "min_count" not in change
    ]
    prints += [learned(other).fingerprint() for other in KINDS if other != kind]
    assert len({*prints}) == len(prints)


@every_kind
def test_without_sampling_there_is_one_way_to_cut(kind):
    tokenizer = learned(kind)
    assert sampled(tokenizer, TEXTS, 1) == sampled(tokenizer, TEXTS, 2) == tokenizer.encode(TEXTS)


@every_kind
@pytest.mark.parametrize("nothing", [[], ["", ""], [" \t", "\n", "\u3000"]])
def test_nothing_to_learn_from_is_an_error(kind, nothing):
    with pytest.raises(TextError, match=r"no text to learn a vocabulary from: .* check that"):
        train_tokenizer(nothing, TokenizerSettings(kind=kind))
