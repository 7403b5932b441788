import numpy as np
import pytest

from regard.text.ragged import Ragged, flatten, ragged_arange, row_starts


@pytest.mark.parametrize("rows", [[], [[]], [[5, 6], [], [7]], [[], [1], []]])
def test_rows_come_back(rows):
    flat = flatten(rows)
    assert flat.ids.dtype == np.int32
    assert flat.ids.tolist() == [i for row in rows for i in row]
    assert flat.counts.tolist() == [len(row) for row in rows]
    assert [row.tolist() for row in flat.rows()] == rows


def test_rows_may_be_arrays():
    flat = flatten([np.array([1, 2], np.int32), [3]])
    assert flat == Ragged(flat.ids, flat.counts)
    assert flat.ids.tolist() == [1, 2, 3]


def test_stretches():
    counts = np.array([2, 0, 3])
    assert row_starts(counts).tolist() == [0, 2, 2]
    assert ragged_arange(np.array([10, 50, 7]), counts).tolist() == [10, 11, 7, 8, 9]
    assert ragged_arange(counts[:0], counts[:0]).tolist() == []
