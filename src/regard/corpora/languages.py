"""Codes of languages (ISO 639), and the one that a person meant who wrote a name or a country."""

import difflib
import re
from functools import cache

from babel.core import Locale, get_global

_CODE = re.compile(r"[a-z]{2,3}(?:[-_][a-z0-9]+)*", re.IGNORECASE)
_LOCALE = re.compile(r"([a-z]{2,3})(?:[-_][a-z]{4})?(?:[-_][a-z]{2})?")


@cache
def _names() -> dict[str, str]:
    """English name of a language, in small letters -> its code."""
    return {
        name.casefold(): code for code, name in Locale("en").languages.items() if "_" not in code
    }


@cache
def _own_names() -> dict[str, str]:
    """What some languages call themselves -> their codes."""
    codes = ("ar", "de", "es", "fr", "it", "ja", "ko", "nl", "pl", "pt", "ru", "tr", "zh")
    return {str(Locale(code).get_language_name(code)).casefold(): code for code in codes}


def code_of_name(name: str) -> str | None:
    """The code of the language that English calls `name`; None where it is unknown."""
    return _names().get(name.strip().casefold())


def shortest_code(given: str) -> str:
    """A code or name of a language as its shortest code: `en` for `English`, `eng` and `en-US`.

    What is neither comes back in small letters.
    """
    name = given.strip().casefold()
    if code := code_of_name(name):
        return code
    if found := _LOCALE.fullmatch(name):
        return str(get_global("language_aliases").get(found[1], found[1])).partition("_")[0]
    return name


def suggest_code(given: str) -> str | None:
    """The code that was likely meant by what is none; None where it may be one, or none is like it.

    Names and near misses of names are known (`english`, `japanse`), and two letters that are of a
    country and of no language (`jp`). What else has the shape of a code is taken as one.
    """
    code = given.strip().casefold()
    if not _CODE.fullmatch(code):
        names = {**_own_names(), **_names()}
        near = difflib.get_close_matches(code, names, n=1, cutoff=0.8)
        return names[near[0]] if near else None
    if len(code) > 2 or code in Locale("en").languages or code in get_global("language_aliases"):
        return None
    likely = get_global("likely_subtags").get(f"und_{code.upper()}", "")
    return likely.partition("_")[0] or None


def explain_codes(given: tuple[str, str]) -> str | None:
    """What is wrong with a pair of codes, and which one was meant; None where nothing is."""
    meant = [suggest_code(one) for one in given]
    wrong = [
        one
        for one, code in zip(given, meant, strict=True)
        if code is not None or not _CODE.fullmatch(one.strip())
    ]
    if not wrong:
        return None
    pair = "-".join(code or one for one, code in zip(given, meant, strict=True))
    known = all(code or one not in wrong for one, code in zip(given, meant, strict=True))
    hint = f"did you mean {pair}?" if known else "expected codes of ISO 639, such as en-de"
    listed = " and ".join(repr(one) for one in wrong)
    verb = "is no code" if len(wrong) == 1 else "are no codes"
    return f"{listed} {verb} of a language; {hint}"
