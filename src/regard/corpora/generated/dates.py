"""Dates in the formats of some forty locales (CLDR, by Babel), and the same dates in ISO 8601.

Each source has one answer: where the month is a number, the locale comes first, "en-US: 3/4/2021";
names of months are unique over all locales, hence no Croatian. Short years: 1969 to 2068 (POSIX).
"""

from datetime import date, timedelta
from functools import cache
from random import Random
from typing import Literal, NamedTuple, get_args

from babel import Locale
from babel.dates import DateTimePattern, get_date_format

from regard.corpora.corpus import AlignedPair, Corpus, Pair
from regard.corpora.generated.generator import GeneratedSettings, generated_corpus

LOCALES = (
    "af ar bg bn ca cs da de el en-AU en-GB en-US es et eu fa fi fr he hi hu id is it ja ko lt lv "
    "ms nb nl pl pt ro ru sk sl sv sw th tr uk vi zh"
)
Format = Literal["full", "long", "medium", "short"]
SKELETONS = ("yMd", "yMMMd", "yMMMEd")
ALL_YEARS, SHORT_YEARS = (1900, 2099), (1969, 2068)
LOWERCASE_SHARE = 0.25


class DateFormat(NamedTuple):
    """One way to write a date in one locale."""

    locale: Locale
    pattern: DateTimePattern
    label: str  # what is written before the date
    years: tuple[int, int]  # the first and the last that are unambiguous

    def write(self, day: date) -> str:
        return self.label + self.pattern.apply(day, self.locale)


def dates(settings: GeneratedSettings) -> Corpus:
    """The corpus of dates; no date is in two splits, not even in different formats."""
    return generated_corpus("dates", ("mul", "und"), _draw, settings, aligned=False)


@cache
def date_formats() -> tuple[DateFormat, ...]:
    """The distinct formats of each locale."""
    found = []
    for place in LOCALES.split():
        locale = Locale.parse(place, sep="-")
        formats = [get_date_format(name, locale) for name in get_args(Format)]
        formats += [locale.datetime_skeletons[name] for name in SKELETONS]
        for text, pattern in {pattern.pattern: pattern for pattern in formats}.items():
            plain = "MMM" in text or "月" in text  # the month has a name, or a mark
            years = SHORT_YEARS if "yy" in text else ALL_YEARS
            found.append(DateFormat(locale, pattern, "" if plain else f"{place}: ", years))
    return tuple(found)


def _draw(random: Random) -> AlignedPair:
    date_format = random.choice(date_formats())
    first, last = (date(year, 1, 1) for year in (date_format.years[0], date_format.years[1] + 1))
    day = first + timedelta(random.randrange((last - first).days))
    text = date_format.write(day)
    if random.random() < LOWERCASE_SHARE:
        text = text.lower()
    return AlignedPair(Pair(text, day.isoformat()))
