import pickle

import numpy as np
import pytest

from regard.corpora import token_stream
from regard.corpora.running_text import TextPart
from regard.corpora.token_stream import (
    EncodedPart,
    StreamCounts,
    StreamFooter,
    TokenStream,
    encode_stream,
    write_token_stream,
)
from regard.errors import CorpusError
from regard.text.special_tokens import EOS
from text.lessons import KINDS, learned

PARTS = [
    TextPart("Jane visits\n", False),
    TextPart("  Africa in September.\n", False),
    TextPart("", True),
    TextPart("She doesn't  visit Europe", True),
    TextPart("", True),
    TextPart("Jane\n", False),
]


def encoded(ids):
    return EncodedPart(np.array(ids), StreamCounts(tokens=len(ids), words=1))


@pytest.mark.parametrize("chunk", [1, 2, 4096])
@pytest.mark.parametrize("kind", KINDS)
def test_documents_are_followed_by_eos_and_decode_to_their_text(kind, chunk, monkeypatch):
    monkeypatch.setattr(token_stream, "PARTS_PER_CHUNK", chunk)
    tokenizer = learned(kind)
    ids = np.concatenate([part.ids for part in encode_stream(tokenizer, iter(PARTS))])
    ends = np.flatnonzero(ids == EOS)
    documents = [tokenizer.decode(one[one != EOS].tolist()) for one in np.split(ids, ends + 1)]
    if kind not in ("words", "whitespace"):  # these do not know all of it
        assert documents[0] == "Jane visits\n  Africa in September.\n"
        assert documents[1] == "She doesn't  visit Europe"
    assert documents[2:] == ["", "Jane\n"]


def test_words_lines_and_characters_are_counted():
    [part] = encode_stream(learned("characters"), iter(PARTS))
    assert part.counts == StreamCounts(
        tokens=12 + 23 + 1 + 25 + 1 + 1 + 5,
        words=2 + 3 + 4 + 1,
        line_ends=3 + 3,
        characters=12 + 23 + 25 + 5 + 3,
        documents=3,
        unknown=0,
    )
    assert part.counts.tokens == len(part.ids)


@pytest.mark.parametrize(
    ("kind", "text", "fewer"),
    [
        ("words", "Jane visits", {"words": 1, "characters": 4}),
        ("characters", "Jane visits", {"characters": 1}),
        ("characters", "\nJane", {"line_ends": 1, "characters": 1}),
        ("words", "", {"line_ends": 1, "characters": 1, "documents": 1}),
    ],
)
def test_what_follows_the_first_token_is_counted(kind, text, fewer, tmp_path):
    tokenizer = learned(kind)
    parts = list(encode_stream(tokenizer, iter([TextPart(text, True)])))
    counts = write_token_stream(tmp_path / "a", parts, "x", vocabulary=tokenizer.size)
    found = TokenStream.open(tmp_path / "a").counts_after_first(tokenizer)
    changed = {key: getattr(counts, key) - getattr(found, key) for key in StreamCounts.model_fields}
    assert {key: value for key, value in changed.items() if value} == {"tokens": 1, **fewer}


@pytest.mark.parametrize(("vocabulary", "dtype"), [(1 << 16, "<u2"), ((1 << 16) + 1, "<u4")])
def test_ids_come_back_and_stay_in_the_file(tmp_path, vocabulary, dtype):
    path = tmp_path / "train.tokens"
    ids = [5, vocabulary - 1, 0, 7]
    counts = write_token_stream(path, [encoded(ids), encoded([9])], "print", vocabulary=vocabulary)
    assert counts == StreamCounts(tokens=5, words=2)
    stream = TokenStream.open(path, "print")
    assert isinstance(stream.ids, np.memmap)
    assert stream.ids.dtype == dtype
    assert [*stream.ids] == [*ids, 9]
    assert stream.counts == counts
    assert [*pickle.loads(pickle.dumps(stream)).ids] == [*ids, 9]


def test_an_empty_stream_is_a_stream(tmp_path):
    write_token_stream(tmp_path / "a", [], "x", vocabulary=9)
    assert len(TokenStream.open(tmp_path / "a")) == 0


def test_ids_outside_the_vocabulary_are_refused_and_an_old_stream_stays(tmp_path):
    path = tmp_path / "a"
    write_token_stream(path, [encoded([1])], "x", vocabulary=9)
    with pytest.raises(ValueError, match="of a vocabulary of 9"):
        write_token_stream(path, [encoded([9])], "x", vocabulary=9)
    assert [*TokenStream.open(path).ids] == [1]


def test_another_fingerprint_and_damage_are_noticed(tmp_path):
    path = tmp_path / "a"
    with pytest.raises(CorpusError, match="no such token stream"):
        TokenStream.open(path)
    write_token_stream(path, [encoded([1, 2, 3])], "x", vocabulary=9)
    assert StreamFooter.matches(path, "x")
    assert not StreamFooter.matches(path, "y")
    with pytest.raises(CorpusError, match="its fingerprint is 'x', asked for 'y'"):
        TokenStream.open(path, "y")
    whole = path.read_bytes()
    for damaged in (whole[:-1], whole[2:], b"", whole[:-30] + whole[-20:]):
        path.write_bytes(damaged)
        with pytest.raises(CorpusError, match="not a complete token stream"):
            TokenStream.open(path)
