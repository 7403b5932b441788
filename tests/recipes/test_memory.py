import pytest
import torch

from regard.recipes import memory, process_memory
from regard.recipes.memory import (
    available_memory,
    format_bytes,
    format_seconds,
    peak_memory,
    reset_peak_memory,
)

CPU = torch.device("cpu")


def test_there_is_memory():
    assert 1 << 26 < available_memory(CPU) < 1 << 50


def test_a_peak_is_seen_after_it_is_past():
    reset_peak_memory(CPU)
    before = peak_memory(CPU)
    bulk = torch.ones(1 << 25)  # 128 MiB
    del bulk
    assert peak_memory(CPU) - before > 100 << 20


def test_a_container_may_have_less_than_the_machine(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "CGROUP", tmp_path)
    free = available_memory(CPU)
    (tmp_path / "memory.max").write_text("max\n")
    assert available_memory(CPU) == pytest.approx(free, rel=0.2)
    (tmp_path / "memory.max").write_text("123456789\n")
    assert available_memory(CPU) == 123456789


def test_systems_that_do_not_say(tmp_path, monkeypatch):
    for name in ("PROC_STATUS", "MEMINFO", "CLEAR_REFS", "CGROUP"):
        monkeypatch.setattr(memory, name, tmp_path / "nothing" / name)
    monkeypatch.setattr(process_memory, "PROC_STATUS", tmp_path / "nothing")
    reset_peak_memory(CPU)
    assert peak_memory(CPU) > 1 << 20
    assert available_memory(CPU) > 1 << 26


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (12, "12 bytes"),
        (12_345, "12.3 kB"),
        (999_000_000, "999 MB"),
        (1_300_000_000, "1.3 GB"),
        (2_000_000_000_000, "2.0 TB"),
        (999_700, "1 MB"),
    ],
)
def test_bytes_for_people(number, text):
    assert format_bytes(number) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.25, "0.2 seconds"),
        (75, "75 seconds"),
        (150, "2.5 minutes"),
        (3000, "50 minutes"),
        (9000, "2.5 hours"),
        (400_000, "4.6 days"),
    ],
)
def test_times_for_people(seconds, text):
    assert format_seconds(seconds) == text
