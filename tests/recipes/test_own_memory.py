import numpy as np

from regard.recipes import own_memory
from regard.recipes.own_memory import own_peak, read_size


def test_a_peak_stays_when_its_memory_is_given_back():
    before = own_peak()
    bulk = np.ones(1 << 24)  # 128 MiB
    del bulk
    assert own_peak() >= max(before, 128 << 20)


def test_where_linux_does_not_say_the_peak_is_known_all_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr(own_memory, "STATUS", tmp_path / "nothing")
    assert own_peak() > 1 << 20


def test_a_size_is_read(tmp_path):
    file = tmp_path / "status"
    file.write_text("VmPeak:\t  900 kB\nVmHWM:\t    12 kB\n")
    assert read_size(file, "VmHWM") == 12 * 1024
    assert read_size(file, "VmSwap") is None
    assert read_size(tmp_path / "nothing", "VmHWM") is None
