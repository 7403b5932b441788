from types import SimpleNamespace

import pytest
import torch

from regard.serving import native
from regard.serving.measured import Choice


@pytest.mark.parametrize(
    ("gigabytes", "parameters", "positions"),
    [
        (141, 61_000_000, 591_738),
        (141, 9_000_000, 2_151_489),
        (8, 61_000_000, 33_573),
        (2, 10, 30_517),
    ],
)
def test_a_gpu_searches_as_much_at_a_time_as_it_holds(
    gigabytes, parameters, positions, monkeypatch
):
    class Model:
        """As large as that, and on a GPU."""

        def parameters(self):
            yield SimpleNamespace(device=torch.device("cuda"), numel=lambda: parameters)

    monkeypatch.setattr(native, "available_memory", lambda where: gigabytes * 10**9)
    assert native.own_budget([Model()]) == positions
    monkeypatch.setattr(native, "available_memory", lambda where: 0)
    assert native.own_budget([Model()]) == native.BUDGET
    assert native.own_budget([torch.nn.Linear(1, 1)]) == native.CPU_BUDGET


def test_what_was_measured_on_a_cpu_says_nothing_of_a_gpu(tiny_run, monkeypatch):
    choice = Choice(engine="native", precision="float32", workers=1, budget=1024)
    [run] = native.open_runs([tiny_run], device="cpu", weights="model")
    assert native.Native([run], choice)._budget == 1024
    run.model.to("meta")  # stands for a GPU
    assert native.Native([run], choice)._budget == native.BUDGET
