from types import SimpleNamespace

import numpy as np

from regard.corpora import array_store
from regard.tasks.families.picture_features import FeatureStores


def test_progress_is_noted_while_pictures_are_read_for_the_first_time(tmp_path, monkeypatch):
    monkeypatch.setattr(array_store, "PART_ROWS", 2)
    numbers = [SimpleNamespace(mark=str(n), read=lambda n=n: n) for n in range(6)]
    features = SimpleNamespace(fingerprint="none", compute=lambda some: np.array(some)[:, None])
    notes = []
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path))
    for _ in range(2):
        stores = FeatureStores(lambda split: numbers, note_every=2)
        stores.note = notes.append
        store = stores.of_split(features, "valid")
    assert store.rows(np.arange(6)).ravel().tolist() == [0, 1, 2, 3, 4, 5]
    assert notes == ["valid: 2 of 6 pictures read", "valid: 4 of 6 pictures read"]
