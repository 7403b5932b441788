import torch

from regard.decoding.search.active_batch import ActiveBatch

CPU = torch.device("cpu")


def flags(*places, of=4):
    return torch.tensor([place in places for place in range(of)])


def test_who_is_done_leaves_as_soon_as_there_is_room_enough():
    active_batch = ActiveBatch([9] * 4, CPU, lag=0)
    assert active_batch.poll(flags()) is None
    assert active_batch.poll(flags(2)).tolist() == [False, False, True, False]
    assert active_batch.compact(0.5) is None
    active_batch.poll(flags(0, 2))
    compaction = active_batch.compact(0.5)
    assert (compaction.rows, compaction.removed.tolist(), compaction.kept.tolist()) == (
        [0, 2],
        [0, 2],
        [1, 3],
    )
    assert active_batch.rows == [1, 3]
    assert active_batch.compact(1.0) is None
    assert active_batch.poll(flags(of=2)) is None


def test_the_host_hears_of_it_late():
    active_batch = ActiveBatch([9] * 4, CPU, lag=1)
    assert active_batch.poll(flags()).tolist() == [False] * 4  # nobody knows whether nobody is
    active_batch.poll(flags(2))
    assert active_batch.compact(1.0) is None
    active_batch.poll(flags(2, 3))
    assert active_batch.compact(1.0).rows == [2]
    active_batch.poll(flags(2, of=3))  # hears of the batch of four, of which number 2 has left
    assert active_batch.compact(1.0).rows == [3]


def test_limits_are_known_on_time():
    active_batch = ActiveBatch([2, 3, 2, 4], CPU, lag=1)
    assert active_batch.truncated(1, ()) is None
    active_batch.poll(flags(2))
    truncated = active_batch.truncated(2, ())
    assert truncated.tolist() == [True, False, True, False]
    active_batch.poll(truncated)
    assert active_batch.compact(1.0).rows == [0, 2]
    assert active_batch.truncated(2, ()) is None
    assert active_batch.truncated(3, ()).tolist() == [True, False]


def test_the_unwanted_leave_too():
    active_batch = ActiveBatch([9] * 4, CPU, lag=0)
    truncated = active_batch.truncated(1, [3])
    active_batch.poll(truncated)
    assert active_batch.compact(1.0).rows == [3]
    assert active_batch.truncated(2, [3]) is None
