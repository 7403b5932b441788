from types import SimpleNamespace

import pytest
import torch

from regard.engines.native import native_engine
from regard.engines.tuned_engine import EngineConfig


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

    monkeypatch.setattr(native_engine, "available_memory", lambda where: gigabytes * 10**9)
    assert native_engine.default_budget([Model()]) == positions
    monkeypatch.setattr(native_engine, "available_memory", lambda where: 0)
    assert native_engine.default_budget([Model()]) == native_engine.DEFAULT_BUDGET
    assert native_engine.default_budget([torch.nn.Linear(1, 1)]) == native_engine.CPU_BUDGET


def test_what_was_measured_on_a_cpu_says_nothing_of_a_gpu(tiny_run, monkeypatch):
    choice = EngineConfig(engine="native", precision="float32", workers=1, budget=1024)
    [run] = native_engine.NativeEngine.open_runs([tiny_run], device="cpu", weights="model")
    assert native_engine.NativeEngine([run], choice).budget == 1024
    run.model.to("meta")  # stands for a GPU
    assert native_engine.NativeEngine([run], choice).budget == native_engine.DEFAULT_BUDGET
