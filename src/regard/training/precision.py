"""What products are computed in."""

from typing import Literal

import torch

Precision = Literal["float32", "bfloat16"]
PrecisionName = Literal["auto", "float32", "bfloat16"]


def resolve_precision(name: PrecisionName, device: torch.device) -> Precision:
    """The precision called `name`; "auto" is bfloat16 where `device` multiplies faster in it."""
    if name == "auto":
        return "bfloat16" if _has_fast_bfloat16(device) else "float32"
    return name


def _has_fast_bfloat16(device: torch.device) -> bool:
    """Whether there are instructions for it, so that it need not be emulated."""
    match device.type:
        case "cuda":
            return torch.cuda.get_device_capability(device) >= (8, 0)
        case "cpu":
            # No public function says so in every version of torch that is supported.
            return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
        case _:
            return False
