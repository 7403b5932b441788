import numpy as np
import pytest

from regard.corpora import array_store
from regard.corpora.array_store import prepare_array_store
from regard.errors import CorpusError


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch):
    monkeypatch.setattr(array_store, "PART_ROWS", 4)


def values(rows):
    return np.array([[row, -row, 7] for row in rows], np.float16)


class Counted:
    """Counts what is computed, and stops before a row."""

    def __init__(self, stop=None):
        self.computed, self.stop = [], stop

    def __call__(self, rows):
        if self.stop in rows:
            raise KeyboardInterrupt
        self.computed += rows
        return values(rows)


def test_rows_are_picked_in_any_order(tmp_path):
    store = prepare_array_store(tmp_path, 10, values)
    assert len(store) == 10
    assert store.row_shape == (3,)
    picked = store.rows(np.array([9, 0, 4, 4]))
    assert picked.dtype == np.float16
    assert (picked == values([9, 0, 4, 4])).all()
    assert (store.read_all() == values(range(10))).all()


def test_what_is_there_is_not_computed_again_and_what_was_stopped_goes_on(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        prepare_array_store(tmp_path, 10, Counted(stop=5))
    told = []
    again = Counted()
    prepare_array_store(tmp_path, 10, again, told.append)
    assert again.computed == list(range(4, 10))
    assert told == [4, 8, 10]
    never = Counted()
    assert len(prepare_array_store(tmp_path, 10, never)) == 10
    assert not never.computed


def test_a_damaged_part_is_computed_again(tmp_path):
    prepare_array_store(tmp_path, 10, values)
    part = tmp_path / "00001.npy"
    content = bytearray(part.read_bytes())
    content[-1] ^= 1
    part.write_bytes(content)
    again = Counted()
    store = prepare_array_store(tmp_path, 10, again)
    assert again.computed == [4, 5, 6, 7]
    assert (store.read_all() == values(range(10))).all()


def test_numbers_that_are_not_finite_are_not_kept(tmp_path):
    with pytest.raises(CorpusError, match="rows 0 to 3 have numbers outside the range of float16"):
        prepare_array_store(tmp_path, 10, lambda rows: np.full((len(rows), 2), np.inf, np.float16))
    with pytest.raises(CorpusError, match="no rows"):
        prepare_array_store(tmp_path / "none", 0, values)
