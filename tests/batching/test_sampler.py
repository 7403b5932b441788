import subprocess
import sys
from itertools import islice

import pytest

from regard.batching.sampler import (
    Shard,
    StreamPosition,
    sample_batches,
    sample_segmentations,
    within_max_tokens,
)
from regard.corpora.token_store import TokenChunk, TokenPairs, TokenStore, write_store
from regard.text.build import Tokenizers
from regard.text.ragged import Ragged, flatten
from text.lessons import TEXTS, learned

START = StreamPosition(0, 0)


@pytest.fixture
def store(tmp_path):
    sides = [[[4 + n] * (n % most + 1) for n in range(60)] for most in (7, 5)]
    write_store(tmp_path / "s.arrow", [TokenChunk(*sides)], "mark")
    return TokenStore.open(tmp_path / "s.arrow")


def stream(store, start=START, **changed):
    settings = {"budget": 32, "seed": 3, "max_tokens": 100, **changed}
    return sample_batches(store, start, **settings)


def numbers(drawn):
    return *(side.ids.tolist() for side in drawn.pairs), drawn.next_position


def test_taken_up_anywhere_it_goes_on_the_same(store):
    whole = [numbers(p) for p in islice(stream(store), 40)]
    assert {next_position.epoch for *_, next_position in whole} >= {0, 1}, (
        "the test should cross an epoch"
    )
    for skipped in (1, 7, 23):
        rest = stream(store, whole[skipped - 1][2])
        assert [numbers(p) for p in islice(rest, 40 - skipped)] == whole[skipped:]


@pytest.mark.parametrize("makers", [2, 3, 5])
def test_makers_that_take_turns_make_the_same_stream(store, makers):
    start = StreamPosition(0, 4)
    whole = [numbers(p) for p in islice(stream(store, start), 40)]
    assert {next_position.epoch for *_, next_position in whole} >= {0, 1}, (
        "the test should cross an epoch"
    )
    streams = [stream(store, start, shard=Shard(number, makers)) for number in range(makers)]
    assert [numbers(next(streams[at % makers])) for at in range(40)] == whole


def test_an_epoch_holds_every_pair_once(store):
    firsts = []
    for drawn in stream(store):
        firsts += [row[0] for row in drawn.pairs.source.rows()]
        if drawn.next_position.epoch == 1:
            break
    assert sorted(firsts) == list(range(4, 64))


def test_long_pairs_are_left_out(store):
    drawn = next(stream(store, max_tokens=2, budget=10_000))
    assert drawn.next_position == StreamPosition(1, 0)
    assert len(drawn.pairs.source.counts) == within_max_tokens(store.lengths(), 2).sum() < 60
    assert drawn.pairs.source.counts.max() == 2


def test_sampling_depends_on_the_place_in_the_stream_alone(store):
    def sample_segmentation(pairs, seed):
        return TokenPairs(*(Ragged(side.ids + seed % 1000, side.counts) for side in pairs))

    whole = [numbers(p) for p in islice(stream(store, sample_segmentation=sample_segmentation), 20)]
    again = [
        numbers(p)
        for p in islice(stream(store, whole[9][2], sample_segmentation=sample_segmentation), 10)
    ]
    assert again == whole[10:]
    assert len({str(ids) for ids, *_ in whole}) > 10


@pytest.mark.parametrize("joint", [True, False])
def test_sampled_cuts_spell_the_same_texts_and_follow_the_seed(joint):
    source = learned("bpe", sampling=0.4)
    tokenizers = Tokenizers(source, source if joint else learned("unigram", sampling=0.4))
    texts = TEXTS[:5], TEXTS[2:7]
    pairs = TokenPairs(*(flatten(t.encode(x)) for t, x in zip(tokenizers, texts, strict=True)))

    def cut(seed):
        return [
            [row.tolist() for row in side.rows()]
            for side in sample_segmentations(tokenizers, pairs, seed)
        ]

    assert cut(5) == cut(5)
    assert cut(5) != cut(6)
    for tokenizer, side, given in zip(tokenizers, cut(5), texts, strict=True):
        assert tuple(tokenizer.decode(ids) for ids in side) == given


def test_pairs_are_drawn_without_torch():
    modules = "regard.batching.sampler, regard.batching.prefetch_worker"
    program = f"import sys, {modules}; print('torch' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"
