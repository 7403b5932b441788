import re

import torch

from regard.comparison import machine
from regard.comparison.machine import this_machine, today


def test_this_machine_is_described():
    found = this_machine(torch.device("cpu"))
    assert found.device.startswith("cpu, ")
    assert re.search(r"regard \d.*Python 3.*torch 2.*sacrebleu 2", found.versions)
    assert str(found).startswith(f"{found.device} ({found.processor}), ")


def test_the_processor_has_its_name_from_linux(tmp_path, monkeypatch):
    file = tmp_path / "cpuinfo"
    file.write_text("processor\t: 0\nmodel name\t: Some CPU 3000\nmodel name\t: Some CPU 3000\n")
    monkeypatch.setattr(machine, "PROCESSORS", file)
    assert this_machine(torch.device("cpu")).processor.startswith("Some CPU 3000, ")
    monkeypatch.setattr(machine, "PROCESSORS", tmp_path / "none")
    assert "Some CPU" not in this_machine(torch.device("cpu")).processor


def test_dates_are_iso():
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", today())
