"""A missing CTranslate2 and a broken one have different messages."""

import sys
from importlib.abc import MetaPathFinder

import pytest

from regard.engines.ctranslate2 import availability


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            ModuleNotFoundError("No module named 'ctranslate2'", name="ctranslate2"),
            "CTranslate2 is not installed: pip install ctranslate2",
        ),
        (
            ModuleNotFoundError("No module named 'numpy'", name="numpy"),
            "CTranslate2 cannot be imported: No module named 'numpy'",
        ),
        (
            ImportError("libgomp.so.1: cannot open shared object file"),
            "CTranslate2 cannot be imported: libgomp.so.1: cannot open shared object file",
        ),
        (
            OSError("wrong ELF class"),
            "CTranslate2 cannot be imported: wrong ELF class",
        ),
    ],
)
def test_why_ctranslate2_cannot_be_used(monkeypatch, error, said):
    class Broken(MetaPathFinder):
        def find_spec(self, name, path, target=None):
            if name == "ctranslate2":
                raise error

    monkeypatch.delitem(sys.modules, "ctranslate2", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Broken(), *sys.meta_path])
    assert availability.why_ctranslate2_unavailable() == said


def test_an_unavailable_library_is_reported(monkeypatch):
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    assert "pip install ctranslate2" in availability.why_ctranslate2_unavailable()


def test_an_available_library_has_no_reason():
    pytest.importorskip("ctranslate2")
    assert availability.why_ctranslate2_unavailable() is None
