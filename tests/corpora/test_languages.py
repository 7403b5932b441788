import pytest
from babel.core import get_global

from regard.corpora.languages import (
    SCRIPTS,
    SEVERAL_SCRIPTS,
    explain_codes,
    scripts_of,
    shortest_code,
    suggest_code,
)


@pytest.mark.parametrize(
    ("given", "meant"),
    [("english", "en"), ("Japanse", "ja"), ("jp", "ja"), ("cz", "cs"), ("Deutsch", "de")],
)
def test_what_was_meant(given, meant):
    assert suggest_code(given) == meant


@pytest.mark.parametrize("code", ["en", "eng", "sr-Latn", "pt_BR", "und", "xx", "qaa"])
def test_codes_are_left_alone(code):
    assert suggest_code(code) is None
    assert explain_codes((code, "de")) is None


def test_a_pair_is_explained():
    assert explain_codes(("en", "japanese")) == (
        "'japanese' is not a code of a language; did you mean en-ja?"
    )
    assert explain_codes(("source text", "de")) == (
        "'source text' is not a code of a language; expected codes of ISO 639, such as en-de"
    )


@pytest.mark.parametrize("given", ["English", "eng", "en-US", "EN", "en_Latn_GB"])
def test_one_code_for_all_ways_to_write_it(given):
    assert shortest_code(given) == "en"


def test_every_known_language_has_an_answer():
    codes = [*get_global("likely_subtags"), *get_global("language_aliases")]
    known = [code for code in codes if scripts_of(code)]
    assert len(known) > 7000
    assert all(script in SCRIPTS for code in known for script in scripts_of(code))
    several = SEVERAL_SCRIPTS.values()
    assert all(script in SCRIPTS for scripts in several for script in scripts)
