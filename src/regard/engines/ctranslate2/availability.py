"""Whether CTranslate2, an optional dependency, can be used."""

from collections.abc import Sequence
from pathlib import Path

from regard.recipes.paths import NAMED_WEIGHTS


def _count_gpus() -> int:
    import ctranslate2

    return int(ctranslate2.get_cuda_device_count())


def why_ctranslate2_unavailable() -> str | None:
    """Why CTranslate2 cannot be imported; None: it can."""
    try:
        _count_gpus()
    except ModuleNotFoundError as error:
        if error.name == "ctranslate2":
            return "CTranslate2 is not installed: pip install ctranslate2"
        return f"CTranslate2 cannot be imported: {error}"
    except (ImportError, OSError) as error:  # a library it needs is missing or for another machine
        return f"CTranslate2 cannot be imported: {error}"
    return None


def ct2_sees_gpu() -> bool:
    """Whether CTranslate2, which must be available, sees a GPU."""
    return _count_gpus() > 0


def why_not_ctranslate2(others: Sequence[str | Path], device: str, weights: str) -> str | None:
    """Why CTranslate2 cannot be used for a run and `others` of an ensemble, on `device`, with
    `weights` (a name or a file); None: it can.
    """
    if others:
        return "it runs one model, and this is an ensemble"
    if device not in ("auto", "cpu"):
        return f"it runs on the CPU here, and the device is {device}"
    if weights != "model" and weights not in NAMED_WEIGHTS:
        return f"a run has exports of its own weights only, and these are from a file, {weights}"
    missing = why_ctranslate2_unavailable()
    if missing is None and device == "auto" and ct2_sees_gpu():
        return "there is a GPU, which the native engine uses; give device cpu"
    return missing
