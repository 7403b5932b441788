"""Vocabularies that grow: old pieces keep their ids, texts are cut as before and then joined."""

import pytest

from regard.errors import TextError
from regard.text.build import (
    Tokenizers,
    extend_tokenizer,
    extend_tokenizers,
    load_tokenizer,
    train_tokenizer,
)
from regard.text.settings import TokenizerSettings
from regard.text.vocabulary_extension import Merge, learn_merges, model_type, piece_parts

OLD = ["the cat sat on the mat", "a dog and a cat ran to the market", "no rain in may"] * 20
NEW = ["the plaintiff indemnified the court, \u03b4\u03af\u03ba\u03b7 24/7"] * 6
KINDS = {
    "bpe": {"size": 310},
    "bytes": {"kind": "bpe", "byte_level": True, "size": 300},
    "unigram": {"size": 310},
    "words": {"size": 0},
    "whitespace": {"size": 0},
    "characters": {"size": 0},
}


def old_tokenizer(name):
    return train_tokenizer(OLD, TokenizerSettings(**{"kind": name, **KINDS[name]}))


@pytest.mark.parametrize("name", KINDS)
def test_new_pieces_come_last_and_old_texts_keep_their_ids(name, tmp_path):
    old = old_tokenizer(name)
    new = extend_tokenizer(old, NEW, 60)
    assert new.row_names()[: old.size] == old.row_names()
    assert old.size < new.size <= old.size + 60
    assert new.encode(OLD) == old.encode(OLD)
    assert new.decode(new.encode(NEW)[0]) == NEW[0]
    if name in ("bpe", "bytes", "unigram"):
        assert len(new.encode(NEW)[0]) < len(old.encode(NEW)[0])
    new.save(tmp_path, "tokenizer")
    assert load_tokenizer(tmp_path, "tokenizer").encode(NEW) == new.encode(NEW)


@pytest.mark.parametrize("name", ["bpe", "bytes", "unigram"])
def test_a_piece_of_subwords_is_of_letters_of_one_word(name):
    new = extend_tokenizer(old_tokenizer(name), NEW, 200)
    added = new.row_names()[old_tokenizer(name).size :]
    assert b" plaintiff" in added
    assert " \u03b4\u03af\u03ba\u03b7".encode() in added
    assert not [one for one in added if b" " in one[1:] or b"," in one or b"4" in one]


def test_the_most_frequent_pair_is_merged_first_and_counted_anew():
    runs = {("a", "b", "c"): 9, ("a", "b"): 5, ("b", "c", "a"): 6, ("x", "y"): 4}
    found = learn_merges(runs, 9, known={"bc"}, join=lambda left, right: left + right)
    first, second, *_ = found
    assert (first, second) == (Merge("ab", "a", "b"), Merge("abc", "ab", "c"))
    assert [one.piece for one in found] == ["ab", "abc", "ca", "bca"]


def test_parts_are_the_fewest_pieces_that_spell_a_new_one():
    given = ["<pad>", b"a", b"ab", b"b", b"c", b"bc"]
    own = [*given, b"abc", b"bcab", b"ax", "<new>"]
    assert piece_parts(own, given) == {6: (1, 5), 7: (5, 2)}


def test_two_vocabularies_grow_each_by_its_own_side():
    both = Tokenizers(old_tokenizer("bpe"), old_tokenizer("unigram"))
    grown = extend_tokenizers(both, lambda: NEW, lambda: ["Kl\u00e4ger und Kl\u00e4ger"] * 3, 9)
    assert [one.size - old.size for one, old in zip(grown, both, strict=True)] == [9, 9]
    assert "\u00e4".encode() in grown.target.row_names()
    assert "\u00e4".encode() not in grown.source.row_names()


def test_a_model_that_cuts_into_words_is_refused():
    trainer_spec = b"\x12\x02\x18\x03"  # field 2, of two bytes: field 3 is 3
    with pytest.raises(TextError, match="cuts texts into words"):
        model_type(trainer_spec)
