"""Whether CTranslate2, an optional dependency, can be used."""


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
