import json
import os
import random
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby

import pytest
import sentencepiece
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from pydantic import ValidationError

from regard.errors import TextError
from regard.text import sentencepiece_tokenizer
from regard.text.build import load_tokenizer, train_tokenizer
from regard.text.settings import TokenizerSettings
from regard.text.special_tokens import SPECIAL_PIECES, UNK
from text.lessons import SUBWORDS, TEXTS, learned, sampled

every_kind = pytest.mark.parametrize("kind", SUBWORDS)

ODD = [
    " ",
    "   ",
    "  two  spaces  ",
    "\ttab\t",
    "\n\nlines\r\n",
    "\0nul\0",
    "\x1b[1m\x7f\x01",
    "▁",
    " ▁ ▁▁word▁",
    "▅",
    "⁇ <unk> <s> </s> <pad> <0x41>",
    "\ufdd0\ufdd1\ufdd2",
    "\ufdd0▁\ufdd1▁\ufdd0\ufdd0",
    "\ufffd\ufeff\uffff\U0010ffff",
    "👨‍👩‍👧 🇫🇷",
    "\u3000全角\u3000",
    "a\u0301\u0302\u0303",
]


@every_kind
@pytest.mark.parametrize("text", ODD)
def test_odd_text_comes_back_whole(kind, text):
    tokenizer = learned(kind, form="none")
    [ids] = tokenizer.encode([text])
    assert UNK not in ids
    assert tokenizer.decode(ids) == text


@every_kind
def test_odd_text_can_be_learned(kind):
    settings = TokenizerSettings(kind=kind, size=2000, form="none", character_coverage=1.0)
    tokenizer = train_tokenizer(ODD, settings)
    ids = tokenizer.encode(ODD)
    assert [tokenizer.decode(one) for one in ids] == ODD
    assert tokenizer.pieces(tokenizer.encode(["x▁x"])[0])[-2] == "▁"


@every_kind
def test_special_pieces_in_a_text_are_letters(kind):
    tokenizer = learned(kind)
    [ids] = tokenizer.encode(["<s></s><pad><unk>"])
    assert min(ids) > 3


@every_kind
def test_no_piece_reaches_across_a_space(kind):
    texts = ["!\u00a0! ?\n? .\t. ,\x85, ;\u3000;"] * 50
    tokenizer = train_tokenizer(texts, TokenizerSettings(kind=kind, size=1000))
    spelled = [tokenizer.decode([i]) for i in range(4, tokenizer.size)]
    assert "\u00a0" in spelled
    assert "\u3000" in spelled
    assert [
        text for text in spelled if len(text.split()) != 1 and not text.isspace() and text
    ] == []
    assert [text for text in spelled if text != text.strip() and not text.isspace()] == []


@every_kind
def test_without_byte_fallback_the_unknown_is_unknown(kind):
    tokenizer = learned(kind, byte_fallback=False, size=120)
    [ids] = tokenizer.encode(["Jane Ж Jane"])
    assert ids.count(UNK) == 1
    assert tokenizer.decode(ids) == "Jane ⁇ Jane"
    assert learned(kind).size - learned(kind, byte_fallback=False).size > 0


@every_kind
def test_rare_characters_beyond_the_coverage_are_bytes(kind):
    texts = ["abc " * 500, "é"]
    covered = train_tokenizer(texts, TokenizerSettings(kind=kind, character_coverage=1.0))
    assert covered.pieces(covered.encode(["aé"])[0])[-1] == "é"
    rare = train_tokenizer(texts, TokenizerSettings(kind=kind, character_coverage=0.99))
    assert rare.pieces(rare.encode(["aé"])[0])[-2:] == ["<0xC3>", "<0xA9>"]


@every_kind
def test_size_is_kept_where_the_text_allows_and_told_where_not(kind):
    assert learned(kind, size=330).size == 330
    small = train_tokenizer(["a b"], TokenizerSettings(kind=kind, size=8000))
    assert 260 < small.size < 270


@every_kind
def test_too_small_a_size_says_what_is_needed(kind):
    expected = rf"size: 261 is too small for the {kind} vocabulary .* bytes and characters alone"
    with pytest.raises(TextError, match=expected + r" take 266; raise size"):
        train_tokenizer(["abcde"], TokenizerSettings(kind=kind, size=261))
    with pytest.raises(TextError, match=r"special pieces and characters alone take 10;"):
        train_tokenizer(["abcde"], TokenizerSettings(kind=kind, size=7, byte_fallback=False))


@every_kind
def test_text_of_nothing_but_reserved_characters_is_an_error(kind):
    with pytest.raises(TextError, match="has nothing to learn from; add text"):
        train_tokenizer(["\0", "▅\t"], TokenizerSettings(kind=kind))


def test_what_sentencepiece_refuses_is_told(monkeypatch):
    def refuse(**_):
        raise RuntimeError("INTERNAL: something else")

    monkeypatch.setattr(sentencepiece.SentencePieceTrainer, "train", refuse)
    with pytest.raises(TextError, match="cannot learn from this text: INTERNAL: something else"):
        train_tokenizer(["a"], TokenizerSettings())


@every_kind
def test_long_words_and_long_texts_teach_all_that_they_hold(kind):
    texts = ["ab" * 40_000 + "y", "cd " * 40_000 + "z"]
    tokenizer = train_tokenizer(texts, TokenizerSettings(kind=kind, character_coverage=1.0))
    shown = tokenizer.pieces(range(260, tokenizer.size))
    assert {*"abcdyz"} <= {letter for piece in shown for letter in piece}
    assert [tokenizer.decode(ids) for ids in tokenizer.encode(texts)] == texts


@pytest.fixture
def trainable(monkeypatch):
    """The lines that SentencePiece is given to learn from."""
    lines = []
    train = sentencepiece.SentencePieceTrainer.train

    def keep(sentence_iterator, **options):
        lines.extend(sentence_iterator)
        train(sentence_iterator=iter(lines), **options)

    monkeypatch.setattr(sentencepiece.SentencePieceTrainer, "train", keep)
    return lines


def test_bpe_learns_from_words_and_their_counts(trainable):
    train_tokenizer(["b a\tb b", "a  b"], TokenizerSettings(size=300))
    assert sorted(trainable) == ["a\t1", "a</s>b\t1", "b\t3"]


def test_unigram_learns_from_words_mixed_without_long_repetition(trainable):
    texts = ["ab"] * 30_000 + ["cd"] * 900 + [f"{number:x}" for number in range(3000)]
    tokenizer = train_tokenizer(texts, TokenizerSettings(kind="unigram", size=300))
    counts = Counter(trainable)
    assert counts["ab"] == 1000
    assert counts["cd"] == 901
    assert len(counts) == 3000
    assert max(len([*group]) for _, group in groupby(trainable)) < 20
    assert tokenizer.size == 300


@every_kind
def test_text_beyond_the_room_is_thinned_out(kind, trainable, monkeypatch):
    monkeypatch.setattr(sentencepiece_tokenizer, "_BPE_CHARACTERS", 3000)
    monkeypatch.setattr(sentencepiece_tokenizer, "_UNIGRAM_CHARACTERS", 3000)
    often = [f"often{letter}" for letter in "abcdefgh"]
    texts = often * 50 + [f"{number:05}" for number in range(2000)]
    tokenizer = train_tokenizer(texts, TokenizerSettings(kind=kind, size=290))
    words = [line.split("\t")[0] for line in trainable]
    assert 2000 < sum(map(len, words)) <= 3000
    assert {*often} <= {*words}
    thousands = [sum(word.startswith(f"0{n}") for word in words) for n in range(2)]
    assert min(thousands) > 50
    assert tokenizer.size == 290


@every_kind
@hypothesis_settings(max_examples=50, deadline=None)
@given(text=st.text(), seed=st.integers(0, 1 << 32))
def test_sampled_text_comes_back_whole(kind, text, seed):
    tokenizer = learned(kind, sampling=0.3, form="none")
    [ids] = sampled(tokenizer, [text], seed)
    assert tokenizer.decode(ids) == text


@every_kind
def test_sampling_depends_on_texts_and_seed_alone(kind):
    tokenizer, texts = learned(kind, sampling=0.3), list(TEXTS)
    first = sampled(tokenizer, texts, 5)
    assert sampled(tokenizer, texts, 6) != first
    assert sampled(tokenizer, texts, 5) == first
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda seed: sampled(tokenizer, texts, seed), [5, 6, 7] * 5))
    assert found[::3] == [first] * 5


@every_kind
def test_without_byte_fallback_samples_show_the_unknown_as_encode_does(kind):
    tokenizer = learned(kind, byte_fallback=False, sampling=0.3)
    [ids] = sampled(tokenizer, ["Jane ЖЖ Jane"], 1)
    assert ids.count(UNK) == 1
    assert tokenizer.decode(ids) == "Jane ⁇ Jane"


def test_sampling_means_what_its_setting_says():
    syllables = [first + second for first in "bdfgklmnprst" for second in "aeiou"]
    rng = random.Random(0)
    texts = [" ".join("".join(rng.choices(syllables, k=3)) for _ in "12345") for _ in range(200)]

    def length(kind, sampling):
        settings = TokenizerSettings(kind=kind, size=800, sampling=sampling)
        return sum(map(len, sampled(train_tokenizer(texts, settings), texts, 1)))

    assert length("bpe", 0) < length("bpe", 0.1) < length("bpe", 0.5) < length("bpe", 0.9)
    assert length("unigram", 0) < length("unigram", 0.9) < length("unigram", 0.1)


@every_kind
def test_another_process_learns_and_samples_the_same(kind):
    tokenizer = learned(kind, sampling=0.3)
    program = (
        "import json, sys\n"
        "from regard.text.build import train_tokenizer\n"
        "from regard.text.settings import TokenizerSettings\n"
        "from regard.text.ragged import flatten\n"
        "texts, settings = json.load(sys.stdin)\n"
        "it = train_tokenizer(texts, TokenizerSettings(**settings))\n"
        "rows = it.sample_segmentation(flatten(it.encode(texts)), 5).rows()\n"
        "print(json.dumps([it.fingerprint(), [row.tolist() for row in rows]]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        input=json.dumps([TEXTS, tokenizer.settings.model_dump()]),
        env={**os.environ, "PYTHONHASHSEED": "77"},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert json.loads(done.stdout) == [tokenizer.fingerprint(), sampled(tokenizer, TEXTS, 5)]
    assert done.stderr == ""  # SentencePiece keeps quiet


def byte_level():
    return train_tokenizer(TEXTS, TokenizerSettings(size=400, byte_level=True))


@pytest.mark.parametrize(
    "text",
    ["Jane  visits\n\n Africa — ▁▅\0\t\x85 été 😀 <s>\ufdd0", "", " ", *dict.fromkeys(TEXTS)],
)
def test_byte_level_subwords_give_back_any_text(text):
    tokenizer = byte_level()
    [ids] = tokenizer.encode([text])
    assert UNK not in ids
    assert tokenizer.decode(ids) == text
    assert "".join(tokenizer.surfaces(text)) == text


def test_byte_level_pieces_may_be_parts_of_characters(tmp_path):
    tokenizer = byte_level()
    spelled = {tokenizer._id_bytes[i] for i in range(len(SPECIAL_PIECES), tokenizer.size)}
    assert {bytes([n]) for n in range(256)} <= spelled
    assert "हि".encode()[:2] in spelled
    assert not any(len(piece) > 1 and b"\n" in piece for piece in spelled)
    tokenizer.save(tmp_path, "both")
    assert load_tokenizer(tmp_path, "both").encode(TEXTS) == tokenizer.encode(TEXTS)


@pytest.mark.parametrize(
    "wrong", [{"kind": "unigram"}, {"kind": "words"}, {"sampling": 0.1}, {"byte_fallback": False}]
)
def test_byte_level_is_refused_where_it_does_nothing(wrong):
    with pytest.raises(ValidationError, match="byte_level"):
        TokenizerSettings(**{"byte_level": True, **wrong})
