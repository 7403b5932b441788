"""Language codes (ISO 639), corrections of misspelled ones, and the scripts of languages."""

import difflib
import re
import unicodedata
from functools import cache, lru_cache

from babel.core import Locale, get_global

from regard.text.word_units import UNSPACED_SCRIPTS

_CODE = re.compile(r"[a-z]{2,3}(?:[-_][a-z0-9]+)*", re.IGNORECASE)
_LOCALE = re.compile(r"([a-z]{2,3})(?:[-_][a-z]{4})?(?:[-_][a-z]{2})?")


@cache
def _names() -> dict[str, str]:
    """English name of a language, in lower case -> its code."""
    return {
        name.casefold(): code for code, name in Locale("en").languages.items() if "_" not in code
    }


@cache
def _own_names() -> dict[str, str]:
    """What some languages call themselves -> their codes."""
    codes = ("ar", "de", "es", "fr", "it", "ja", "ko", "nl", "pl", "pt", "ru", "tr", "zh")
    return {str(Locale(code).get_language_name(code)).casefold(): code for code in codes}


def shortest_code(given: str) -> str:
    """The shortest code of a language: `en` for `English`, `eng`, `en-US`; else in lower case."""
    name = given.strip().casefold()
    if code := _names().get(name):
        return code
    if found := _LOCALE.fullmatch(name):
        return str(get_global("language_aliases").get(found[1], found[1])).partition("_")[0]
    return name


def suggest_code(given: str) -> str | None:
    """The code that an unknown one probably means; None if it may be valid, or none is similar.

    Recognises names, also misspelled (`english`, `japanse`), and codes of countries (`jp`).
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
    """What is wrong with a pair of codes, and which was probably meant; None if both are valid."""
    meant = [suggest_code(one) for one in given]
    valid = [bool(_CODE.fullmatch(one.strip())) for one in given]
    codes = list(zip(given, meant, valid, strict=True))
    wrong = [one for one, code, is_code in codes if code is not None or not is_code]
    if not wrong:
        return None
    pair = "-".join(code or one for one, code, _ in codes)
    known = all(code or is_code for _, code, is_code in codes)
    hint = f"did you mean {pair}?" if known else "expected codes of ISO 639, such as en-de"
    verb = "is not a code" if len(wrong) == 1 else "are not codes"
    return f"{' and '.join(map(repr, wrong))} {verb} of a language; {hint}"


_SCRIPT_NAMES = (
    "Arab ARABIC, Armn ARMENIAN, Beng BENGALI, Cans CANADIAN, Cher CHEROKEE, Cyrl CYRILLIC, "
    "Deva DEVANAGARI, Ethi ETHIOPIC, Geor GEORGIAN, Grek GREEK, Gujr GUJARATI, Guru GURMUKHI, "
    "Hani CJK IDEOGRAPHIC BOPOMOFO, Hans CJK IDEOGRAPHIC BOPOMOFO, Hant CJK IDEOGRAPHIC BOPOMOFO, "
    "Hebr HEBREW, Jpan CJK IDEOGRAPHIC HIRAGANA KATAKANA, Khmr KHMER, Knda KANNADA, "
    "Kore HANGUL CJK IDEOGRAPHIC, Laoo LAO, Latn LATIN, Mlym MALAYALAM, Mong MONGOLIAN, "
    "Mymr MYANMAR, Nkoo NKO, Orya ORIYA, Sinh SINHALA, Syrc SYRIAC, Taml TAMIL, Telu TELUGU, "
    "Tfng TIFINAGH, Thaa THAANA, Thai THAI, Tibt TIBETAN"
)
SCRIPTS = {entry[:4]: entry[5:] for entry in _SCRIPT_NAMES.split(", ")}
"""ISO 15924 codes -> the words that the Unicode names of their letters begin with."""
SPACED_SCRIPT_NAMES = frozenset(
    name
    for code, names in SCRIPTS.items()
    if code not in UNSPACED_SCRIPTS
    for name in names.split()
) - {"CJK", "IDEOGRAPHIC"}
"""The words of scripts that put spaces between words; Korean has Chinese characters too."""
SEVERAL_SCRIPTS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("az", "bs", "kk", "ky", "sr", "tg", "tk", "tt", "uz"), ("Cyrl", "Latn")),
    **dict.fromkeys(("ha", "ku", "ms", "ug"), ("Arab", "Latn")),
    **dict.fromkeys(("ks", "sd"), ("Arab", "Deva")),
    "mn": ("Cyrl", "Mong"),
    "pa": ("Arab", "Guru"),
}
"""Languages written in more scripts than the likely one in Unicode's locale data (CLDR)."""
NO_LANGUAGE = {"mis", "mul", "und", "zxx"}


@lru_cache(maxsize=1 << 16)
def script_name(letter: str) -> str:
    """The first word of the Unicode name of a letter, or of its plain form if it has one."""
    plain = unicodedata.normalize("NFKC", letter)[0]
    return unicodedata.name(plain, "").replace("-", " ").partition(" ")[0]


def scripts_of(language: str) -> tuple[str, ...]:
    """The ISO 15924 codes of a language's scripts, or of the script in its code (`sr-Latn`)."""
    first, *rest = language.replace("_", "-").split("-")
    named = tuple(part.title() for part in rest if part.title() in SCRIPTS)
    code = get_global("language_aliases").get(first.lower(), first.lower())  # `en` for `eng`
    code = code.partition("_")[0]
    if named or code in SEVERAL_SCRIPTS:
        return named or SEVERAL_SCRIPTS[code]
    likely = get_global("likely_subtags").get(code, "") if code not in NO_LANGUAGE else ""
    return tuple(part for part in likely.split("_") if part in SCRIPTS)
