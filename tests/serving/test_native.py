import pytest
import torch

from regard.serving import native
from regard.serving.measured import Choice


@pytest.mark.parametrize(("gigabytes", "positions"), [(141, 537_872), (8, 30_517), (2, 16_384)])
def test_a_gpu_searches_as_much_at_a_time_as_it_holds(gigabytes, positions, monkeypatch):
    monkeypatch.setattr(native, "available_memory", lambda where: gigabytes * 10**9)
    assert native.own_budget(torch.device("cuda")) == positions
    assert native.own_budget(torch.device("cpu")) == native.CPU_BUDGET
    assert native.own_budget(torch.device("mps")) == native.BUDGET


def test_what_was_measured_on_a_cpu_says_nothing_of_a_gpu(tiny_run, monkeypatch):
    choice = Choice(engine="native", precision="float32", workers=1, budget=1024)
    [run] = native.open_runs([tiny_run], device="cpu", weights="model")
    assert native.Native([run], choice)._budget == 1024
    run.model.to("meta")  # stands for a GPU
    assert native.Native([run], choice)._budget == native.BUDGET
