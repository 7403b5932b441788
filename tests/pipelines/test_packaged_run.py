"""The run that comes with the package: small, whole, right, and left as it was installed."""

import os
import subprocess

import pytest
from safetensors import safe_open

import regard
from regard.errors import SettingsError
from regard.recipes.paths import PACKAGED_RUN
from regard.recipes.verification import verify

TRANSLATIONS = {
    "Jane visite l'Afrique en septembre.": "Jane visits Africa in September.",
    "Elle ne la visite pas.": "She does not visit it.",
    "Jane ne va pas la visiter en septembre.": "Jane is not going to visit it in September.",
    "Il ne dort jamais.": "He never sleeps.",
    "Elle part.": "She leaves.",
    "Paul aime la plage.": "Paul loves the beach.",
}
"""Sentences of the lectures, the documentation and the help."""


def files():
    return {file: file.stat() for file in PACKAGED_RUN.rglob("*") if file.is_file()}


def test_it_is_small_and_whole_and_has_a_card():
    assert sum(stat.st_size for stat in files().values()) < 3e6
    assert verify(PACKAGED_RUN).findings == ()
    assert "fr → en" in (PACKAGED_RUN / "card.md").read_text("utf-8")
    with safe_open(PACKAGED_RUN / "model.safetensors", "pt") as weights:
        assert {weights.get_slice(name).get_dtype() for name in weights.keys()} == {"F16"}  # noqa: SIM118


def test_it_translates_as_the_documentation_says_and_writes_nothing():
    before = files()
    translator = regard.load(device="cpu")
    answers = translator.translate(list(TRANSLATIONS))
    assert [answer.text for answer in answers] == list(TRANSLATIONS.values())
    looked = translator("Jane visite l'Afrique en septembre.", look=True)
    assert sorted(looked.attention.alignment()) == [(i, i) for i in range(5)]
    assert files() == before


def test_no_export_is_kept_in_the_package():
    for path in (PACKAGED_RUN, os.path.relpath(PACKAGED_RUN)):
        with pytest.raises(SettingsError, match="no export is kept in the installed package"):
            regard.load(path, engine="ctranslate2")


def test_git_and_so_the_wheel_leaves_none_of_it_out():
    """A wheel has the files of the package that git does not ignore."""
    names = [str(file) for file in files()]
    ignored = subprocess.run(
        ["git", "check-ignore", *names], cwd=PACKAGED_RUN, capture_output=True, text=True
    )
    assert ignored.stdout == ""
