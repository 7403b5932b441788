"""Pairs that would teach a model wrong things are dropped, and every one of them is counted."""

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any, Literal, NamedTuple, Self, get_args

from babel.core import get_global
from pydantic import Field, PositiveInt, model_validator

from regard.corpora.cleaning.language_id import LanguageIdentifier, learn_languages
from regard.corpora.corpus import Pair
from regard.corpora.dedup import HashSet, hash_texts
from regard.iterate import chunked
from regard.settings import Settings
from regard.text.word_units import UNSPACED_SCRIPTS, split_units

CHUNK = 8192
"""Pairs looked at together."""
RATIO_FLOOR = 10
"""Characters that a side counts as having, at the least, where lengths are compared."""
MAX_EXAMPLES, MAX_EXAMPLE_CHARACTERS = 3, 60
"""Examples kept for each reason, and characters kept of each side of one."""
Reason = Literal[
    "empty",
    "control characters",
    "too many words",
    "too many characters",
    "lengths too unlike",
    "source equals target",
    "wrong script",
    "wrong language",
    "duplicate",
    "in valid or test",
]
"""Why a pair is dropped, in the order of asking: it is counted under the first that applies."""
PairCheck = tuple[Reason, Callable[[Pair], bool]]
"""A reason, and whether it applies to a pair."""


_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\ufffd]")


LeakRule = Literal["either", "source"]
IgnoredDifference = Literal["spacing", "punctuation"]


class CleaningSettings(Settings):
    """Which pairs are dropped before training. Texts are never changed.

    A pair is dropped for either of its sides, and counted under the first reason that applies, in
    the order of the fields.
    """

    drop_empty: bool = True
    """Drop pairs with a side that holds nothing, or nothing but spaces."""
    drop_control: bool = True
    """Drop pairs with control characters (tabs are fine) or U+FFFD, the mark of lost text."""
    max_words: PositiveInt | None = 250
    """Drop pairs with more words, as spaces divide them, than this; null allows any number. Text of
    scripts without spaces has few such words: there `max_characters` is the limit."""
    max_characters: PositiveInt | None = 2000
    """Drop pairs with more characters than this; null allows any number."""
    max_ratio: float | None = Field(default=6.0, ge=1)
    """Drop pairs where one side has more than this times the characters of the other, the other
    counted as 10 at least, so that short pairs pass; null allows any ratio. Chinese takes about a
    quarter of the characters of English: for two alphabets, 3 is a good choice."""
    drop_identical: bool = True
    """Drop pairs whose source equals the target, spaces at the ends aside."""
    drop_wrong_script: bool = True
    """Drop pairs with a side of whose letters more than half are not of its language's script."""
    scripts: tuple[str | None, str | None] = (None, None)
    """The scripts of source and target as ISO 15924 codes, such as Latn or Cyrl, where the
    languages do not tell; a side with neither is not checked."""
    drop_wrong_language: bool = False
    """Drop pairs with a side in another language than most of the corpus, or with their sides
    exchanged. What the languages look like is learned from the first 20,000 pairs; nothing is
    dropped where those are fewer than 1,000 or both sides look alike."""
    drop_duplicates: bool = True
    """Drop pairs that have come before, both sides to the letter."""
    leaks: LeakRule = "either"
    """Drop pairs whose source or target (`either`), or whose source (`source`, for corpora of few
    different targets), is that of a held-out pair, letter case and spaces aside."""
    leaks_ignore: IgnoredDifference = "spacing"
    """What sentences are compared without in that, beside letter case: `punctuation` also finds
    those that another full stop or comma tells apart."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        given = [script for script in self.scripts if script is not None]
        for script in given:
            if script not in SCRIPTS:
                raise ValueError(f"unknown script {script!r}; known: {', '.join(SCRIPTS)}")
        if given and not self.drop_wrong_script:
            raise ValueError("scripts would have no effect: drop_wrong_script is false")
        return self


class DropCount(NamedTuple):
    """A line of a report."""

    reason: Reason
    num_pairs: int
    share: float
    """Of all pairs that came, from 0 to 1."""
    example: str


@dataclass
class CleaningReport:
    """How many pairs came, how many were dropped and why; filled as the pairs go by."""

    received: Counter[str] = field(default_factory=Counter)
    """Pairs that came to each stage: cleaning, then the search for leaks."""
    dropped: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[Pair]] = field(default_factory=dict)
    """The first few pairs dropped for each reason, shortened."""

    @property
    def total(self) -> int:
        """Pairs that came to the first stage: no later one can get more."""
        return max(self.received.values(), default=0)

    @property
    def kept(self) -> int:
        """Pairs that no stage dropped; any that were cut for validation and test are among them."""
        return self.total - self.dropped.total()

    def drop(self, reason: Reason, pair: Pair) -> None:
        """Count a pair as dropped."""
        self.dropped[reason] += 1
        known = self.examples.setdefault(reason, [])
        if len(known) < MAX_EXAMPLES:
            known.append(Pair(*map(_shorten, pair)))

    def rows(self) -> list[DropCount]:
        """A row for each reason that has dropped a pair, in the order of asking."""
        return [
            DropCount(reason, count, count / self.total, " ||| ".join(self.examples[reason][0]))
            for reason in get_args(Reason)
            if (count := self.dropped[reason])
        ]

    def to_json(self) -> dict[str, Any]:
        """Everything, as JSON can hold it."""
        return {
            "total": self.total,
            "kept": self.kept,
            "dropped": {row.reason: row.num_pairs for row in self.rows()},
            "examples": {row.reason: self.examples[row.reason] for row in self.rows()},
        }

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> Self:
        """The report that `to_json` was called on."""
        examples = {why: [Pair(*pair) for pair in some] for why, some in saved["examples"].items()}
        return cls(Counter(saved=saved["total"]), Counter(saved["dropped"]), examples)


def _shorten(text: str) -> str:
    """The beginning of a text, fit to be printed."""
    text = text if len(text) <= MAX_EXAMPLE_CHARACTERS else f"{text[: MAX_EXAMPLE_CHARACTERS - 1]}…"
    return _CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def clean(
    pairs: Iterable[Pair],
    settings: CleaningSettings,
    languages: tuple[str, str],
    report: CleaningReport,
    seen: HashSet | None = None,
) -> Iterator[Pair]:
    """The pairs that are fit for use, unchanged but for a line break at the end of a side.

    `seen` has the pairs of what was cleaned before, which count as duplicates here too.
    """
    checks = _checks(settings, languages)
    seen = HashSet() if seen is None else seen
    check = None
    if settings.drop_wrong_language:
        check, pairs = learn_languages(pairs)
    for chunk in chunked(pairs, CHUNK):
        report.received["cleaning"] += len(chunk)
        fit = []
        for pair in (Pair(*(side.rstrip("\r\n") for side in pair)) for pair in chunk):
            reason = next((reason for reason, applies in checks if applies(pair)), None)
            if reason is None:
                fit.append(pair)
            else:
                report.drop(reason, pair)
        if check is not None:
            fit = list(_drop_wrong_language(fit, check, report))
        if not settings.drop_duplicates:
            yield from fit
            continue
        new = seen.add_new(
            hash_texts(f"{len(pair.source)} {pair.source}{pair.target}" for pair in fit)
        )
        for pair, is_new in zip(fit, new.tolist(), strict=True):
            if is_new:
                yield pair
            else:
                report.drop("duplicate", pair)


def _drop_wrong_language(
    pairs: Sequence[Pair], check: LanguageIdentifier, report: CleaningReport
) -> Iterator[Pair]:
    """The pairs of which no side is in a wrong language."""
    for pair, is_wrong in zip(pairs, check.classify(pairs).wrong.tolist(), strict=True):
        if is_wrong:
            report.drop("wrong language", pair)
        else:
            yield pair


def _checks(settings: CleaningSettings, languages: tuple[str, str]) -> list[PairCheck]:
    """What the settings ask of a pair, in order."""
    checks: list[PairCheck] = []
    if settings.drop_empty:
        checks.append(("empty", _is_empty))
    if settings.drop_control:
        checks.append(("control characters", _has_control))
    if settings.max_words is not None:
        checks.append(("too many words", partial(_has_more_words, settings.max_words)))
    if settings.max_characters is not None:
        checks.append(("too many characters", partial(_is_longer, settings.max_characters)))
    if settings.max_ratio is not None:
        checks.append(("lengths too unlike", partial(_exceeds_ratio, settings.max_ratio)))
    if settings.drop_identical:
        checks.append(("source equals target", _is_identical))
    if settings.drop_wrong_script:
        sides = zip(settings.scripts, languages, strict=True)
        scripts = [(given,) if given else scripts_of(language) for given, language in sides]
        checks.append(("wrong script", partial(_is_wrong_script, [*map(_script_names, scripts)])))
    return checks


def _is_empty(pair: Pair) -> bool:
    return not (pair.source.strip() and pair.target.strip())


def _has_control(pair: Pair) -> bool:
    # most texts are printable throughout, which is quicker to ask
    return any(
        "\ufffd" in side or (not side.isprintable() and _CONTROL.search(side)) for side in pair
    )


def _has_more_words(most: int, pair: Pair) -> bool:
    # more than n words, with the spaces between them, take more than 2n characters
    return any(len(side) > 2 * most and len(side.split()) > most for side in pair)


def _is_longer(most: int, pair: Pair) -> bool:
    return any(len(side) > most for side in pair)


def _exceeds_ratio(ratio: float, pair: Pair) -> bool:
    shorter, longer = sorted(map(len, pair))
    return longer > ratio * max(shorter, RATIO_FLOOR)


def _is_identical(pair: Pair) -> bool:
    return pair.source.strip() == pair.target.strip()


def _is_wrong_script(expected: Sequence[frozenset[str]], pair: Pair) -> bool:
    """Whether more than half of the letters of a side have names that begin otherwise.

    For a script without spaces a word of another counts as one letter: it says no more than that,
    and Japanese that names programs may be Latin for the most part.
    """
    for side, names in zip(pair, expected, strict=True):
        if not names or (side.isascii() and "LATIN" in names):
            continue
        read = (
            side if names & SPACED_SCRIPT_NAMES else "".join(map(_first_letter, split_units(side)))
        )
        letters = {char: count for char, count in Counter(read).items() if char.isalpha()}
        foreign = sum(count for char, count in letters.items() if script_name(char) not in names)
        if 2 * foreign > sum(letters.values()):
            return True
    return False


def _first_letter(word: str) -> str:
    return next(filter(str.isalpha, word), "")


@lru_cache(maxsize=1 << 16)
def script_name(letter: str) -> str:
    """The first word of a letter's name in Unicode; of a full-width or styled one, the plain's."""
    plain = unicodedata.normalize("NFKC", letter)[0]
    return unicodedata.name(plain, "").replace("-", " ").partition(" ")[0]


def scripts_of(language: str) -> tuple[str, ...]:
    """The ISO 15924 codes of the scripts that a language is written in; none where unknown.

    A code that names its script, such as `sr-Latn`, has that one.
    """
    first, *rest = language.replace("_", "-").split("-")
    named = tuple(part.title() for part in rest if part.title() in SCRIPTS)
    code = get_global("language_aliases").get(first.lower(), first.lower())  # `en` for `eng`
    code = code.partition("_")[0]
    if named or code in SEVERAL_SCRIPTS:
        return named or SEVERAL_SCRIPTS[code]
    likely = get_global("likely_subtags").get(code, "") if code not in NO_LANGUAGE else ""
    return tuple(part for part in likely.split("_") if part in SCRIPTS)


def _script_names(scripts: Iterable[str]) -> frozenset[str]:
    """How the names of the letters of all these scripts begin."""
    return frozenset(word for script in scripts for word in SCRIPTS[script].split())


SCRIPTS = {
    "Arab": "ARABIC",
    "Armn": "ARMENIAN",
    "Beng": "BENGALI",
    "Cans": "CANADIAN",
    "Cher": "CHEROKEE",
    "Cyrl": "CYRILLIC",
    "Deva": "DEVANAGARI",
    "Ethi": "ETHIOPIC",
    "Geor": "GEORGIAN",
    "Grek": "GREEK",
    "Gujr": "GUJARATI",
    "Guru": "GURMUKHI",
    "Hani": "CJK IDEOGRAPHIC BOPOMOFO",
    "Hans": "CJK IDEOGRAPHIC BOPOMOFO",
    "Hant": "CJK IDEOGRAPHIC BOPOMOFO",
    "Hebr": "HEBREW",
    "Jpan": "CJK IDEOGRAPHIC HIRAGANA KATAKANA",
    "Khmr": "KHMER",
    "Knda": "KANNADA",
    "Kore": "HANGUL CJK IDEOGRAPHIC",
    "Laoo": "LAO",
    "Latn": "LATIN",
    "Mlym": "MALAYALAM",
    "Mong": "MONGOLIAN",
    "Mymr": "MYANMAR",
    "Nkoo": "NKO",
    "Orya": "ORIYA",
    "Sinh": "SINHALA",
    "Syrc": "SYRIAC",
    "Taml": "TAMIL",
    "Telu": "TELUGU",
    "Tfng": "TIFINAGH",
    "Thaa": "THAANA",
    "Thai": "THAI",
    "Tibt": "TIBETAN",
}
"""ISO 15924 codes -> the words that the Unicode names of their letters begin with."""
SPACED_SCRIPT_NAMES = frozenset(
    name
    for code, names in SCRIPTS.items()
    if code not in UNSPACED_SCRIPTS
    for name in names.split()
) - {"CJK", "IDEOGRAPHIC"}
"""The words of scripts that put spaces between words; Korean has Chinese characters, too."""
SEVERAL_SCRIPTS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("az", "bs", "kk", "ky", "sr", "tg", "tk", "tt", "uz"), ("Cyrl", "Latn")),
    **dict.fromkeys(("ha", "ku", "ms", "ug"), ("Arab", "Latn")),
    **dict.fromkeys(("ks", "sd"), ("Arab", "Deva")),
    "mn": ("Cyrl", "Mong"),
    "pa": ("Arab", "Guru"),
}
"""Languages in more scripts than the one that Unicode's locale data (CLDR) call likely."""
NO_LANGUAGE = {"mis", "mul", "und", "zxx"}
