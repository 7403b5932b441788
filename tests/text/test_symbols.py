"""Symbols: words that every kind of tokenizer keeps in one piece."""

import pytest
from pydantic import ValidationError

from regard.text.build import load_tokenizer
from regard.text.settings import TokenizerSettings
from text.lessons import KINDS, SUBWORDS, learned, sampled

SYMBOLS = ("<user>", "<assistant>")
HISTORY = "<user> Jane visits Africa <assistant> in September. <user> Jane visits"
every_kind = pytest.mark.parametrize("kind", KINDS)


def symbol_ids(tokenizer):
    return [tokenizer.encode([symbol])[0] for symbol in SYMBOLS]


@every_kind
def test_a_symbol_is_one_piece_wherever_it_stands(kind):
    tokenizer = learned(kind, symbols=SYMBOLS)
    first, second = symbol_ids(tokenizer)
    assert len(first) == len(second) == 1
    [ids] = tokenizer.encode([HISTORY])
    assert (ids.count(first[0]), ids.count(second[0])) == (2, 1)
    assert ids[0] == first[0]
    assert tokenizer.decode(ids) == HISTORY
    assert "".join(tokenizer.surfaces(HISTORY)) == HISTORY


@every_kind
def test_inside_a_word_it_is_no_symbol(kind):
    tokenizer = learned(kind, symbols=SYMBOLS)
    [ids] = tokenizer.encode(["Jane<user>"])
    assert symbol_ids(tokenizer)[0][0] not in ids


@every_kind
def test_a_saved_tokenizer_keeps_its_symbols(kind, tmp_path):
    tokenizer = learned(kind, symbols=SYMBOLS)
    tokenizer.save(tmp_path, "tokenizer")
    assert load_tokenizer(tmp_path, "tokenizer").encode([HISTORY]) == tokenizer.encode([HISTORY])


@pytest.mark.parametrize("kind", SUBWORDS)
def test_random_segmentation_leaves_symbols_alone(kind):
    tokenizer = learned(kind, symbols=SYMBOLS, sampling=0.5 if kind == "bpe" else 0.01)
    symbols = {one for [one] in symbol_ids(tokenizer)}
    plain = [i for i in tokenizer.encode([HISTORY])[0] if i in symbols]
    cuts = [sampled(tokenizer, [HISTORY], seed)[0] for seed in range(5)]
    assert len({tuple(cut) for cut in cuts}) > 1
    for cut in cuts:
        assert tokenizer.decode(cut) == HISTORY
        assert [i for i in cut if i in symbols] == plain


@pytest.mark.parametrize("symbols", [("user",), ("<User>",), ("<a b>",), ("<a>", "<a>")])
def test_what_is_no_symbol_is_refused(symbols):
    with pytest.raises(ValidationError, match="symbols"):
        TokenizerSettings(symbols=symbols)
