import pytest
import torch

from regard.serving import native


@pytest.mark.parametrize(("gigabytes", "positions"), [(141, 537_872), (8, 30_517), (2, 16_384)])
def test_a_gpu_searches_as_much_at_a_time_as_it_holds(gigabytes, positions, monkeypatch):
    monkeypatch.setattr(native, "available_memory", lambda where: gigabytes * 10**9)
    assert native._budget(torch.device("cuda")) == positions
    assert native._budget(torch.device("cpu")) == native.CPU_BUDGET
    assert native._budget(torch.device("mps")) == native.BUDGET
