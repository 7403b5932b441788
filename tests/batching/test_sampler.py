import subprocess
import sys
from itertools import islice

import numpy as np
import pytest

from regard.batching.sampler import (
    Shard,
    StreamPosition,
    epoch_batches,
    length_sorted_batches,
    sample_batches,
    sample_segmentations,
    within_max_tokens,
)
from regard.corpora.token_store import TokenChunk, TokenPairs, TokenStore, write_store
from regard.text.build import Tokenizers
from regard.text.ragged import Ragged, flatten
from text.lessons import TEXTS, learned

START = StreamPosition(0, 0)
SIZES = np.random.default_rng(7).integers(1, 30, (2, 500)).astype(np.int32)


@pytest.fixture
def store(tmp_path):
    sides = [[[4 + n] * (n % most + 1) for n in range(60)] for most in (7, 5)]
    write_store(tmp_path / "s.pairs", [TokenChunk(*sides)], "mark")
    return TokenStore.open(tmp_path / "s.pairs")


def stream(store, start=START, **changed):
    settings = {"budget": 32, "seed": 3, "max_tokens": 100, **changed}
    return sample_batches(store, start, **settings)


def numbers(drawn):
    return *(side.ids.tolist() for side in drawn.pairs), drawn.next_position


def test_a_stream_resumed_anywhere_continues_the_same(store):
    whole = [numbers(p) for p in islice(stream(store), 40)]
    assert {next_position.epoch for *_, next_position in whole} >= {0, 1}, (
        "the test should cross an epoch"
    )
    for skipped in (1, 7, 23):
        rest = stream(store, whole[skipped - 1][2])
        assert [numbers(p) for p in islice(rest, 40 - skipped)] == whole[skipped:]


@pytest.mark.parametrize("makers", [2, 3, 5])
def test_shards_together_make_the_same_stream(store, makers):
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


def test_sampling_depends_on_the_position_alone(store):
    seeds = []

    def sample_segmentation(pairs, seed):
        seeds.append(seed)
        return TokenPairs(*(Ragged(side.ids + seed % 1000, side.counts) for side in pairs))

    whole = [numbers(p) for p in islice(stream(store, sample_segmentation=sample_segmentation), 20)]
    again = [
        numbers(p)
        for p in islice(stream(store, whole[9][2], sample_segmentation=sample_segmentation), 10)
    ]
    assert again == whole[10:]
    assert len({*seeds}) == 20
    assert len({str(ids) for ids, *_ in whole}) > 10


@pytest.mark.parametrize("joint", [True, False])
def test_sampled_segmentations_decode_to_the_same_texts(joint):
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


def test_sampling_imports_no_torch():
    modules = "regard.batching.sampler, regard.batching.prefetch"
    program = f"import sys, {modules}; print('torch' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"


def plan(budget=128, seed=1, epoch=0, sizes=SIZES):
    return epoch_batches(*sizes, budget=budget, seed=seed, epoch=epoch)


def as_lists(batches):
    return [batch.tolist() for batch in batches]


def test_every_row_comes_once():
    assert sorted(np.concatenate(plan())) == list(range(500))


def test_no_batch_exceeds_the_budget():
    longest = np.maximum(*SIZES)
    assert all(longest[batch].max() * len(batch) <= 128 for batch in plan())


def test_budget_is_used_well():
    longest = np.maximum(*SIZES)
    padded = sum(int(longest[batch].max()) * len(batch) for batch in plan())
    assert padded < 1.1 * longest.sum(), "length buckets should leave little padding"
    assert padded > 0.8 * 128 * len(plan()), "batches should be nearly full"


def test_a_row_longer_than_the_budget_is_alone():
    sizes = np.array([[3, 500, 3], [2, 2, 2]], np.int32)
    assert sorted(map(len, plan(budget=10, sizes=sizes))) == [1, 2]


def test_order_is_decided_by_seed_and_epoch_alone():
    first = as_lists(plan())
    assert as_lists(plan()) == first
    assert as_lists(plan(seed=2)) != first
    assert as_lists(plan(epoch=1)) != first


def test_rows_of_equal_length_are_shuffled_in_each_epoch():
    sizes = np.full((2, 100), 5, np.int32)
    together = [{frozenset(batch) for batch in as_lists(plan(50, 1, e, sizes))} for e in (0, 1)]
    assert together[0] != together[1]


def test_validation_batches_are_shortest_first():
    batches = length_sorted_batches(*SIZES, budget=128)
    longest = [np.maximum(*SIZES)[batch].max() for batch in batches]
    assert longest == sorted(longest)
    assert sorted(np.concatenate(batches)) == list(range(500))


@pytest.mark.parametrize("count", [0, 1])
def test_small_corpora(count):
    sizes = np.full((2, count), 4, np.int32)
    assert as_lists(plan(sizes=sizes)) == [[0]] * count
