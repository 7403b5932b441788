"""Kernels run on a GPU, or in a process of their own under Triton's interpreter."""

import pytest
import torch

from regard.kernels.dispatch import have_triton, interpreted

NEEDS = {
    "test_varlen_attention.py",
    "test_fused_add_norm.py",
    "test_cross_entropy.py",
    "test_dropout_rng.py",
    "test_fused_linear.py",
    "test_dispatch.py",
    "test_decode_attention.py",
    "test_topk_logits.py",
    "test_beam_update.py",
    "test_window_attention.py",
}


def pytest_collection_modifyitems(items):
    if have_triton() and (interpreted() or torch.cuda.is_available()):
        return
    why = "no triton" if not have_triton() else "test_interpreted.py runs it where there is no GPU"
    for item in items:
        if item.path.parent.name == "kernels" and item.path.name in NEEDS:
            item.add_marker(pytest.mark.skip(reason=why))


@pytest.fixture(autouse=True, scope="session")
def ready_language():
    """Triton's interpreter patches its language once for each launch.

    By default it does so at every call of a function in a kernel, such as `tl.sum`, which took half
    of the time of the tests here.
    """
    if not interpreted():
        yield
        return
    import triton.language as tl
    from triton.runtime import interpreter

    make_ready = interpreter._patch_lang

    def make_ready_once(function):
        visible = [one for one in function.__globals__.values() if one is tl or one is tl.core]
        if any(tl.core.is_builtin(one.load) for one in visible):
            return make_ready(function)
        return None

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(interpreter, "_patch_lang", make_ready_once)
        yield


@pytest.fixture
def device():
    return torch.device("cpu" if interpreted() else "cuda")


@pytest.fixture
def seed(monkeypatch, device):
    """The seed that all kernels are given."""
    from regard.kernels import fused_add_norm, varlen_attention

    fixed = torch.tensor([0x1234_5678_9ABC_DEF0], device=device)
    for module in (varlen_attention, fused_add_norm):
        monkeypatch.setattr(module, "draw_seed", lambda _: fixed)
    return fixed
