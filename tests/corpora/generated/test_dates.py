import re
from datetime import date

import pytest

from regard.corpora.generated.dates import LOCALES, date_formats, dates
from regard.corpora.generated.generator import GeneratedSettings

SETTINGS = GeneratedSettings(train=3000, valid=50, test=60)


@pytest.fixture(scope="module")
def pairs():
    return list(dates(SETTINGS).splits["train"]())


def test_some_forty_places_are_there():
    places = LOCALES.split()
    assert len(places) == len(set(places)) >= 40
    assert {str(date_format.locale) for date_format in date_formats()} == {
        place.replace("-", "_") for place in places
    }


def test_targets_are_iso_dates_within_range(pairs):
    days = [date.fromisoformat(pair.target) for pair in pairs]
    assert all(1900 <= day.year <= 2099 for day in days)
    assert len({day.year for day in days}) > 150


def test_a_spelling_is_never_read_as_two_dates():
    # the worst days: numbers that may be days, months or years; in either case of letters
    days = [date(2011, month, day) for month in range(1, 13) for day in (1, 3, 10, 11, 12)]
    seen = {}
    for date_format in date_formats():
        for day in days:
            for text in {date_format.write(day), date_format.write(day).lower()}:
                assert seen.setdefault(text, day) == day, text
    assert len(seen) > 10_000


def test_only_numbers_need_their_place():
    for date_format in date_formats():
        text = date_format.pattern.pattern
        labelled = bool(date_format.label)
        assert labelled == (not re.search("MMM|月", text)), text


def test_two_digits_are_a_year_from_1969_to_2068():
    short = [date_format for date_format in date_formats() if "yy" in date_format.pattern.pattern]
    assert short
    assert {date_format.years for date_format in short} == {(1969, 2068)}
    assert {date_format.years for date_format in date_formats() if date_format not in short} == {
        (1900, 2099)
    }


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("jeudi 4 mars 2021", "2021-03-04"),
        ("en-US: 3/4/2021", "2021-03-04"),
        ("en-GB: 04/03/2021", "2021-03-04"),
        ("2021年3月4日", "2021-03-04"),
        ("March 4, 2021", "2021-03-04"),
        ("sv: 2021-03-04", "2021-03-04"),
    ],
)
def test_people_write_so(text, day):
    assert text in {date_format.write(date.fromisoformat(day)) for date_format in date_formats()}


def test_some_dates_are_in_small_letters(pairs):
    cased = [
        pair.source for pair in pairs if re.match("(?i)(monday|mon,|january|jan )", pair.source)
    ]
    assert {text[0].isupper() for text in cased} == {True, False}


def test_no_date_is_in_two_splits():
    corpus = dates(SETTINGS)
    days = [{pair.target for pair in corpus.splits[split]()} for split in corpus.splits]
    assert sum(map(len, days)) == len(set.union(*days))
    assert not corpus.gold
