import re

import torch

from regard.comparison.machine import this_machine, today


def test_this_machine_is_described():
    found = this_machine(torch.device("cpu"))
    assert found.device.startswith("cpu, ")
    assert re.search(r"regard \d.*Python 3.*torch 2.*sacrebleu 2", found.versions)
    assert str(found).startswith(f"{found.device} ({found.processor}), ")


def test_dates_are_iso():
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", today())
