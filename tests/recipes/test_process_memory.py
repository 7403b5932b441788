import numpy as np

from regard.recipes import process_memory
from regard.recipes.process_memory import peak_rss, read_proc_kb


def test_a_peak_stays_when_its_memory_is_given_back():
    before = peak_rss()
    bulk = np.ones(1 << 24)  # 128 MiB
    del bulk
    assert peak_rss() >= max(before, 128 << 20)


def test_where_linux_does_not_say_the_peak_is_known_all_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr(process_memory, "PROC_STATUS", tmp_path / "nothing")
    assert peak_rss() > 1 << 20


def test_a_size_is_read(tmp_path):
    file = tmp_path / "status"
    file.write_text("VmPeak:\t  900 kB\nVmHWM:\t    12 kB\n")
    assert read_proc_kb(file, "VmHWM") == 12 * 1024
    assert read_proc_kb(file, "VmSwap") is None
    assert read_proc_kb(tmp_path / "nothing", "VmHWM") is None
