"""The door to what stands on torch, which takes seconds to import, or on what may not be there.

This is the one place where imports come late, so that all other files can say plainly what they
import.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import Any


def native() -> Any:
    """The module of the native engine."""
    return import_module("regard.serving.native")


def markup() -> Any:
    """The module that carries markup over, by attention."""
    return import_module("regard.serving.markup")


def exporting() -> Any:
    """The module that makes exports; `has_ctranslate2` must hold."""
    return import_module("regard.serving.exporting")


def fast() -> Any:
    """The module of the engine that uses them; `has_ctranslate2` must hold."""
    return import_module("regard.serving.fast")


def has_ctranslate2() -> bool:
    """Whether CTranslate2 is installed."""
    return find_spec("ctranslate2") is not None
