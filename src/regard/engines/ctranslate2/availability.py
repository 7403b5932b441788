"""The door to what stands on torch, which takes seconds to import, or on what may not be there.

This is the one place where imports come late, so that all other files can say plainly what they
import.
"""

from importlib import import_module
from typing import Any


def native() -> Any:
    """The module of the native engine."""
    return import_module("regard.engines.native.native_engine")


def look() -> Any:
    """The module that records the attention of a translation."""
    return import_module("regard.pipelines.look")


def markup() -> Any:
    """The module that carries markup over, by attention."""
    return import_module("regard.pipelines.markup.markup_translator")


def held_codes() -> Any:
    """The module that keeps addresses and placeholders in sentences as they are."""
    return import_module("regard.pipelines.markup.protected_text")


def exporting() -> Any:
    """The module that makes exports; `why_no_ctranslate2` must be None."""
    return import_module("regard.engines.ctranslate2.exporter")


def fast() -> Any:
    """The module of the engine that uses them; `why_no_ctranslate2` must be None."""
    return import_module("regard.engines.ctranslate2.ct2_engine")


def why_ctranslate2_unavailable() -> str | None:
    """Why CTranslate2 cannot be used here; None: it can."""
    try:
        import_module("ctranslate2")
    except ModuleNotFoundError as error:
        if error.name == "ctranslate2":
            return "CTranslate2 is not installed: pip install ctranslate2"
        return f"CTranslate2 cannot be imported: {error}"
    except (ImportError, OSError) as error:  # of a library that it needs, or for another machine
        return f"CTranslate2 cannot be imported: {error}"
    return None
