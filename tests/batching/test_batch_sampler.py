import numpy as np
import pytest

from regard.batching.batch_sampler import epoch_batches, length_sorted_batches

SIZES = np.random.default_rng(7).integers(1, 30, (2, 500)).astype(np.int32)


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


def test_rows_of_one_length_meet_others_in_each_epoch():
    sizes = np.full((2, 100), 5, np.int32)
    together = [{frozenset(batch) for batch in as_lists(plan(50, 1, e, sizes))} for e in (0, 1)]
    assert together[0] != together[1]


def test_once_is_shortest_first():
    batches = length_sorted_batches(*SIZES, budget=128)
    longest = [np.maximum(*SIZES)[batch].max() for batch in batches]
    assert longest == sorted(longest)
    assert sorted(np.concatenate(batches)) == list(range(500))


@pytest.mark.parametrize("count", [0, 1])
def test_small_corpora(count):
    sizes = np.full((2, count), 4, np.int32)
    assert as_lists(plan(sizes=sizes)) == [[0]] * count
