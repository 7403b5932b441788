from regard.recipes import machine_load
from regard.recipes.machine_load import OtherWork


def looks(monkeypatch, *ticks):
    """Watch a machine of four cores whose `/proc/stat` is as given."""
    given = iter(ticks)
    monkeypatch.setattr(machine_load, "_ticks", lambda: next(given))
    monkeypatch.setattr(machine_load.os, "cpu_count", lambda: 4)
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    return OtherWork()


def test_others_take_cores_only_from_those_that_want_them(monkeypatch):
    work = looks(monkeypatch, (0, 0, 0), *[(300, 100, 400), (600, 200, 800), (900, 300, 1200)])
    assert work.takes_from(4)  # others use two of four
    assert not work.takes_from(2)
    assert work.takes_from(3)


def test_what_this_process_uses_is_not_others(monkeypatch):
    work = looks(monkeypatch, (0, 0, 0), (400, 400, 400))
    assert not work.takes_from(4)


def test_where_the_system_does_not_say_nothing_is_told(monkeypatch):
    assert not looks(monkeypatch, None, (400, 0, 400)).takes_from(4)


def test_other_processes_of_a_training_are_not_other_work(monkeypatch):
    work = looks(monkeypatch, (0, 0, 0), (400, 100, 400))
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert not work.takes_from(4)


def test_ticks_of_this_process_are_among_all():
    used, own, elapsed = machine_load._ticks()
    assert 0 < own <= used <= elapsed
