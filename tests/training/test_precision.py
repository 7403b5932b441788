import pytest
import torch

from regard.training.precision import resolve_precision

CPU = torch.device("cpu")


@pytest.mark.parametrize("has", [True, False])
@pytest.mark.parametrize("name", ["_is_avx512_bf16_supported", "_is_amx_tile_supported"])
def test_auto_is_bfloat16_on_cpus_that_have_it(monkeypatch, name, has):
    for one in ("_is_avx512_bf16_supported", "_is_amx_tile_supported"):
        monkeypatch.setattr(torch.cpu, one, lambda one=one: has and one == name)
    assert resolve_precision("auto", CPU) == ("bfloat16" if has else "float32")


@pytest.mark.parametrize(("capability", "wanted"), [((9, 0), "bfloat16"), ((7, 5), "float32")])
def test_auto_is_bfloat16_on_gpus_that_have_it(monkeypatch, capability, wanted):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: capability)
    assert resolve_precision("auto", torch.device("cuda")) == wanted


def test_auto_is_float32_on_devices_nobody_has_measured():
    assert resolve_precision("auto", torch.device("mps")) == "float32"


def test_what_is_asked_for_is_taken():
    assert resolve_precision("float32", CPU) == "float32"
    assert resolve_precision("bfloat16", CPU) == "bfloat16"
