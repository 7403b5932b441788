"""A GPT whose `model.py` lies in somebody's checkout, with the interface of Karpathy's nanoGPT:
`GPT`, `GPTConfig` and `configure_optimizers`.

Nothing of it is held here: the checkout is named, its commit is told, and it is trained as its own
`train.py` does on one GPU.
"""

import inspect
import subprocess
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.errors import SettingsError

MODEL_FILE = "model.py"
INTERFACE = "GPT", "GPTConfig"
WEIGHT_DECAY, LEARNING_RATE, BETAS, CLIP = 0.1, 1e-4, (0.9, 0.95), 1.0


def commit_of(checkout: Path) -> str:
    """The commit of a checkout, and whether its `model.py` differs from it."""
    if not (checkout / MODEL_FILE).is_file():
        raise SettingsError(f"{checkout}: no checkout with a {MODEL_FILE} at its top")
    git = ["git", "-C", str(checkout)]
    try:
        commit, *above = _output([*git, "rev-parse", "HEAD", "--show-prefix"]).split()
        changed = _output([*git, "status", "--porcelain", "--", MODEL_FILE])
    except (OSError, subprocess.CalledProcessError):
        above = [""]
    if above:  # no repository, or a folder in one
        raise SettingsError(
            f"{checkout}: git knows no commit of it: make it by git clone, so that it can be told "
            "what was measured"
        )
    return f"{commit}, {MODEL_FILE} changed" if changed else commit


def _output(command: list[str]) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def load_module(checkout: Path) -> Any:
    """The module `model.py`, which is executed."""
    spec = spec_from_file_location("peer_checkout_model", checkout / MODEL_FILE)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    if missing := [name for name in INTERFACE if not inspect.isclass(getattr(module, name, None))]:
        raise SettingsError(f"{checkout / MODEL_FILE}: has no class {' and no '.join(missing)}")
    return module


def training_step(
    checkout: Path, device: torch.device, *, compiled: bool, **sizes: int
) -> Callable[[Tensor], Tensor]:
    """A step on a window of ids (B, T + 1), which gives the loss; `sizes` are of `GPTConfig`.

    The defaults are GPT-2's smallest model, its vocabulary padded to a multiple of 64.
    """
    module = load_module(checkout)
    torch.manual_seed(1)
    model = module.GPT(module.GPTConfig(dropout=0.0, **sizes)).to(device).train()
    kind = device.type
    optimizer = model.configure_optimizers(WEIGHT_DECAY, LEARNING_RATE, BETAS, kind)
    run = torch.compile(model) if compiled else model

    def step(window: Tensor) -> Tensor:
        pinned = window.pin_memory() if kind == "cuda" else window
        ids = pinned.to(device, non_blocking=True)
        with torch.autocast(kind, torch.bfloat16):
            _, loss = run(ids[:, :-1].contiguous(), ids[:, 1:].contiguous())
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()  # type: ignore[no-any-return]

    return step
