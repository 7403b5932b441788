"""Imported tokenizers give the ids that `transformers` gives, and keep our contract."""

import json
import os
import pickle
import random
from pathlib import Path

import pytest

from hf_folders import TOKENIZERS
from hostile_lines import hostile_lines
from regard.errors import RunError, TextError
from regard.exchange.huggingface.folder import HfFolder
from regard.exchange.huggingface.tokenizer_files import (
    read_byte_bpe,
    read_tokenizer_json,
    read_wordpiece,
)
from regard.text.build import extend_tokenizer, load_tokenizer
from regard.text.hf_tokenizer import HfTokenizer, parse_tokenizer
from regard.text.settings import TokenizerSettings
from regard.text.special_tokens import BOS, EOS, SPECIAL_PIECES, UNK
from regard.text.vocabulary_map import VocabularyMap

transformers = pytest.importorskip("transformers")

DATA = Path(os.environ.get("REGARD_DATA", "/nonexistent")) / "models" / "tokenizers"
real = pytest.mark.skipif(not DATA.is_dir(), reason="$REGARD_DATA has no models/tokenizers")
LINES = hostile_lines()


def folder_of(path):
    path.mkdir(exist_ok=True)
    (path / "config.json").write_text("{}")
    return HfFolder(path)


@pytest.fixture(scope="module", params=sorted(TOKENIZERS))
def pair(request, tmp_path_factory):
    """A tokenizer of ours, and theirs."""
    path = tmp_path_factory.mktemp("tokenizer")
    made = TOKENIZERS[request.param](transformers)
    made.save_pretrained(path)
    files = read_tokenizer_json(folder_of(path))
    roles = ("pad_token", "unk_token", "bos_token", "eos_token")
    special = [files.special(role) for role in roles]
    return files.build(special, len(made)), transformers.AutoTokenizer.from_pretrained(path)


def check_same_ids(ours, theirs):
    encoded = ours.encode(LINES)
    wanted = theirs(LINES, add_special_tokens=False, verbose=False)["input_ids"]
    assert len(encoded) == len(LINES) == 2000
    for line, ids, their_ids in zip(LINES, encoded, wanted, strict=True):
        assert ours.vocabulary_map.to_theirs(ids) == their_ids, repr(line)


def test_ids_are_those_of_transformers(pair):
    check_same_ids(*pair)


def test_any_ids_are_the_text_of_transformers(pair):
    """Also where pieces of bytes are no text, as a model may write them."""
    ours, theirs = pair
    if type(theirs.backend_tokenizer.model).__name__ == "WordPiece":
        pytest.skip("its decoder takes away spaces before punctuation")
    rng, first = random.Random(0), ours.encode(["the"])[0]
    for count in range(200):
        more = [rng.randrange(len(SPECIAL_PIECES), ours.size) for _ in range(count % 9)]
        ids = [*first, *more]
        wanted = theirs.backend_tokenizer.decode(ours.vocabulary_map.to_theirs(ids))
        assert ours.decode(ids) == wanted, ours.pieces(ids)


def test_extended_it_keeps_old_ids_and_transformers_reads_the_new_ones(pair, tmp_path):
    ours, theirs = pair
    texts = ["The plaintiff indemnified the court."] * 9
    new = extend_tokenizer(ours, texts, 30)
    assert new.row_names()[: ours.size] == ours.row_names()
    assert ours.size < new.size <= ours.size + 30
    assert new.encode(["漢字 1,234 😀"]) == ours.encode(["漢字 1,234 😀"])
    (tmp_path / "tokenizer.json").write_bytes(new.content)
    read = transformers.PreTrainedTokenizerFast(tokenizer_file=str(tmp_path / "tokenizer.json"))
    ids = read(texts[0], add_special_tokens=False)["input_ids"]
    assert new.vocabulary_map.to_theirs(new.encode(texts)[0]) == ids
    assert len(ids) < len(theirs(texts[0], add_special_tokens=False)["input_ids"])


def test_extended_it_keeps_characters_without_a_piece(pair):
    ours, _ = pair
    new = extend_tokenizer(ours, ["ᚠᚢ"] * 9, 9)
    assert new.decode(new.encode(["ᚠᚢ"])[0]) == ours.decode(ours.encode(["ᚠᚢ"])[0])


def test_surfaces_and_words_cover_every_line(pair):
    ours, _ = pair
    for line in [line for line in LINES if len(line) < 1000][::4]:
        [ids], surfaces = ours.encode([line]), ours.surfaces(line)
        assert len(surfaces) == len(ids)
        assert not surfaces or "".join(surfaces) == line
        assert len(ours.word_ids(ids)) == len(ours.pieces(ids)) == len(ids)


def test_saved_and_pickled_it_is_the_same(pair, tmp_path):
    ours, _ = pair
    ours.save(tmp_path, "tokenizer")
    loaded, copied = load_tokenizer(tmp_path, "tokenizer"), pickle.loads(pickle.dumps(ours))
    some = LINES[:200]
    assert loaded.encode(some) == copied.encode(some) == ours.encode(some)
    assert loaded.fingerprint() == ours.fingerprint()


def test_half_a_surrogate_pair_is_an_error(pair):
    with pytest.raises(TextError, match="half a surrogate pair"):
        pair[0].encode(["a\ud800b"])


@real
def test_gpt2s_two_files(tmp_path):
    source = DATA / "gpt2-bpe"
    folder = folder_of(tmp_path)
    (tmp_path / "vocab.json").write_bytes((source / "encoder.json").read_bytes())
    (tmp_path / "merges.txt").write_bytes((source / "vocab.bpe").read_bytes())
    roles = {"eos_token": "<|endoftext|>", "tokenizer_class": "GPT2Tokenizer"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(roles))
    files = read_byte_bpe(folder)
    ours = files.build([None, None, None, files.special("eos_token")], 50257)
    check_same_ids(ours, transformers.GPT2TokenizerFast.from_pretrained(tmp_path))
    for line in LINES:
        [ids] = ours.encode([line])
        if EOS not in ids:
            assert ours.decode(ids) == line
    assert ours.text_prefix == ()


@real
def test_berts_vocabulary(tmp_path):
    pieces = json.loads((DATA / "bert-uncased" / "assets" / "vocab.json").read_text())
    spelled = [_wordpiece(piece) for piece in pieces]
    folder = folder_of(tmp_path)
    (tmp_path / "vocab.txt").write_text("\n".join(spelled) + "\n")
    files = read_wordpiece(folder)
    names = ("pad", "unk", "cls", "sep")
    ours = files.build([files.special("", f"[{name.upper()}]") for name in names], len(pieces))
    check_same_ids(ours, transformers.BertTokenizerFast.from_pretrained(tmp_path))
    assert ours.encode(["Attention is all you need."])[0][:2] != [UNK, UNK]
    assert ours.text_prefix == (BOS,)


def _wordpiece(piece):
    """The package spells the beginning of a word as ▁, and not its other parts as ##."""
    if piece.startswith("[") and piece.endswith("]") and len(piece) > 2:
        return piece
    return piece[1:] if piece.startswith("▁") and len(piece) > 1 else f"##{piece}"


def test_a_folder_without_a_tokenizer_is_refused(tmp_path):
    with pytest.raises(RunError, match=r"holds no tokenizer; it must have tokenizer\.json"):
        read_tokenizer_json(folder_of(tmp_path))


def test_a_tokenizer_that_cannot_be_read_is_refused(tmp_path):
    folder = folder_of(tmp_path)
    (tmp_path / "tokenizer.json").write_text('{"model": {"type": "Magic"}}')
    with pytest.raises((RunError, TextError), match=r"tokenizer\.json: cannot be read"):
        read_tokenizer_json(folder)


CATASTROPHES = ("(a+)+b|.", "(a|a)*b", "(ж+)+b", "a*a*b")


def splitting(pattern):
    """A `tokenizer.json` that splits texts by a pattern."""
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated"}
    raw = {
        "version": "1.0",
        "added_tokens": [],
        "pre_tokenizer": split | {"invert": False},
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": False},
        "model": {"type": "WordLevel", "vocab": {"a": 0, "<unk>": 1}, "unk_token": "<unk>"},
    }
    return json.dumps(raw).encode()


@pytest.mark.parametrize("pattern", CATASTROPHES)
def test_patterns_that_take_forever_are_refused_without_a_word_of_rust(pattern, capfd):
    with pytest.raises(TextError, match=r"tokenizer\.json: cannot be read .*(retry-limit|take)"):
        parse_tokenizer(splitting(pattern))
    assert capfd.readouterr() == ("", "")


def test_a_panic_over_a_text_is_an_error_of_ours():
    vocabulary = VocabularyMap(special=(None, 1, None, None), rows=2)
    settings = TokenizerSettings(kind="huggingface", size=vocabulary.size, form="none")
    tokenizer = HfTokenizer(splitting(r"(\x{436}+)+b|."), settings, vocabulary)
    with pytest.raises(TextError, match=r"tokenizer\.json: a text cannot be split by tokenizers"):
        tokenizer.encode(["ж" * 50])
