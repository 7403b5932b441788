from regard.server import file_store
from regard.server.file_store import FileStore


def test_a_file_is_fetched_by_what_it_was_kept_under():
    store = FileStore(100)
    first, second = store.put("a.txt", b"a"), store.put("a.txt", b"b")
    assert first != second
    assert store.get(first)[:2] == ("a.txt", b"a")
    assert store.get("a.txt") is None


def test_the_oldest_make_room():
    store = FileStore(10)
    tokens = [store.put("x", b"1234") for _ in range(4)]
    assert [store.get(token) is not None for token in tokens] == [False, False, True, True]


def test_one_file_always_has_room():
    store = FileStore(2)
    assert store.get(store.put("x", b"1234")) is not None


def test_a_file_is_forgotten_in_time(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(file_store.time, "monotonic", lambda: now[0])
    store = FileStore(100)
    token = store.put("x", b"1")
    now[0] = file_store.KEEP_SECONDS - 1
    assert store.get(token) is not None
    now[0] = file_store.KEEP_SECONDS + 1
    assert store.get(token) is None
