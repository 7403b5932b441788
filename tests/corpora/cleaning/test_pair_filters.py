import json
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from regard.corpora.cleaning import pair_filters
from regard.corpora.cleaning.pair_filters import (
    CleaningReport,
    CleaningSettings,
    clean,
)
from regard.corpora.corpus import Pair
from regard.corpora.generated.generator import GeneratedSettings
from regard.corpora.generated.travel.grammar import travel
from regard.corpora.languages import scripts_of

GOOD = Pair("A good sentence.", "Ein guter Satz.")
NOTHING = CleaningSettings(
    drop_empty=False,
    drop_control=False,
    max_words=None,
    max_characters=None,
    max_ratio=None,
    drop_identical=False,
    drop_wrong_script=False,
    drop_duplicates=False,
)


def cleaned(pairs, languages=("en", "de"), **settings):
    report = CleaningReport()
    kept = list(clean(pairs, CleaningSettings(**settings), languages, report))
    assert report.kept == len(kept)
    return kept, dict(report.dropped)


def dropped(*pairs, languages=("en", "de"), **settings):
    """The reason for which each of `pairs` is dropped, after a good pair."""
    reasons = []
    for pair in pairs:
        kept, counts = cleaned([GOOD, pair], languages, **settings)
        assert kept[0] == GOOD
        reasons.append(next(iter(counts), None))
    return reasons


@pytest.mark.parametrize(
    ("pair", "reason", "allowing"),
    [
        (("", "Nichts"), "empty", {"drop_empty": False}),
        (("Nothing", " \u3000\t"), "empty", {"drop_empty": False}),
        (("A bell\x07", "Eine Glocke"), "control characters", {"drop_control": False}),
        (("A line", "Eine\nZeile"), "control characters", {"drop_control": False}),
        (("Lost", "Verl\ufffdren"), "control characters", {"drop_control": False}),
        (("a " * 251, "b " * 99), "too many words", {"max_words": None}),
        (("a" * 400, "b" * 2001), "too many characters", {"max_characters": None}),
        (("a" * 11, "b" * 67), "lengths too unlike", {"max_ratio": None}),
        (("b" * 61, "a"), "lengths too unlike", {"max_ratio": None}),
        (("Berlin ", "Berlin"), "source equals target", {"drop_identical": False}),
        (("Привет", "Hallo"), "wrong script", {"drop_wrong_script": False}),
        (("Hello", "Привет"), "wrong script", {"drop_wrong_script": False}),
        (GOOD, "duplicate", {"drop_duplicates": False}),
    ],
)
def test_each_reason_and_its_setting(pair, reason, allowing):
    assert dropped(Pair(*pair)) == [reason]
    assert dropped(Pair(*pair), **allowing) == [None]


@pytest.mark.parametrize(
    "pair",
    [
        ("a\ttab", "ein\tTabulator"),
        ("no-break\u00a0space", "weicher\u00adStrich \u200f"),
        ("a " * 250, "b " * 250),
        ("a" * 2000, "b" * 2000),
        ("a" * 11, "b" * 66),
        ("a", "b" * 60),
        ("42 %", "42 \u202f%"),
        ("π is 3", "die Zahl π"),
        ("He said «да»", "Er sagte «конечно»"),
        (GOOD.source, "Ein anderer Satz."),
    ],
)
def test_what_just_passes(pair):
    assert dropped(Pair(*pair)) == [None]


def test_counted_under_the_first_reason():
    bad = [
        Pair("", ""),
        Pair("\x07", "x" * 9999),
        Pair("a " * 3000, "a"),
        Pair("a" * 3000, "a"),
        Pair("Ж" * 500, "Z"),
        Pair("Ж", "Ж"),
        Pair("Ж", "Zh"),
    ]
    assert dropped(*bad) == [
        "empty",
        "control characters",
        "too many words",
        "too many characters",
        "lengths too unlike",
        "source equals target",
        "wrong script",
    ]


def test_a_line_break_at_the_end_is_all_that_changes():
    kept, _ = cleaned([Pair(" a  b \r\n", "c\n"), Pair("d", "e ")])
    assert kept == [(" a  b ", "c"), ("d", "e ")]


def test_duplicates_across_chunks(monkeypatch):
    monkeypatch.setattr(pair_filters, "CHUNK", 3)
    pairs = [Pair(f"a {n % 4}", f"b {n % 8}") for n in range(20)]
    kept, counts = cleaned(pairs)
    assert kept == pairs[:8]
    assert counts == {"duplicate": 12}


def test_where_the_source_ends_matters_to_duplicates():
    kept, _ = cleaned([Pair("ab", "c"), Pair("a", "bc")])
    assert len(kept) == 2


@given(st.lists(st.tuples(st.text(max_size=4), st.text(max_size=4)).map(lambda x: Pair(*x))))
def test_every_pair_is_kept_or_counted(pairs):
    kept, counts = cleaned(pairs)
    assert len(kept) + sum(counts.values()) == len(pairs)


def test_nothing_asked_nothing_dropped():
    pairs = [Pair("", ""), Pair("\x00", "Ж" * 9999), Pair("", "")]
    assert list(clean(pairs, NOTHING, ("en", "de"), CleaningReport())) == pairs


@pytest.mark.parametrize(
    ("language", "right", "wrong"),
    [
        ("ru", "Привет, Tom", "Hello"),
        ("zh", "我们在一起", "こんにちは"),
        ("ja", "コーヒーを飲む人々", "커피를 마신다"),
        ("ko", "커피를 마신다", "コーヒー"),
        ("el", "καλημέρα", "доброе"),
        ("ar", "صباح الخير", "בוקר טוב"),
        ("hi", "सुप्रभात", "সুপ্রভাত"),
        ("sr", "Dobro jutro", "καλημέρα"),
        ("sr", "Добро јутро", "καλημέρα"),
        ("sr-Latn", "Dobro jutro", "Добро јутро"),
        ("rus", "Привет", "Hello"),
        ("en-US", "Ｆｕｌｌ ｗｉｄｔｈ 𝐛𝐨𝐥𝐝", "Привет"),
        ("th", "สวัสดีตอนเช้า", "ສະບາຍດີ"),
    ],
)
def test_scripts_of_languages(language, right, wrong):
    pairs = Pair(right, "Guten Morgen zusammen"), Pair(wrong, "Guten Morgen zusammen")
    other = cleaned(pairs, (language, "de"))
    assert other == ([pairs[0]], {"wrong script": 1})


@pytest.mark.parametrize("language", ["und", "mul", "xx", "", "tlh-Piqd"])
def test_unknown_languages_are_not_checked(language):
    assert scripts_of(language) == ()
    kept, _ = cleaned([Pair("Привет", "Hallo")], (language, "de"))
    assert len(kept) == 1


def test_scripts_may_be_given():
    pairs = [Pair("Привет", "Hallo"), Pair("Hello", "Hallo!")]
    kept, _ = cleaned(pairs, ("und", "und"), scripts=("Cyrl", None))
    assert kept == pairs[:1]


def test_foreign_words_count_as_letters_where_there_are_no_spaces():
    pairs = [Pair("x", "AMIDE tool は画像の表示"), Pair("y", "The Medical Imaging は")]
    assert cleaned(pairs, ("en", "ja")) == (pairs[:1], {"wrong script": 1})


def test_half_of_the_letters_may_be_foreign():
    assert dropped(Pair("ab жш", "x"), Pair("a жш", "x")) == [None, "wrong script"]


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"scripts": ("Latin", None)}, "unknown script 'Latin'; known: Arab, Armn, "),
        (
            {"scripts": ("Latn", None), "drop_wrong_script": False},
            "scripts would have no effect: drop_wrong_script is false",
        ),
        ({"max_ratio": 0.5}, "greater than or equal to 1"),
        ({"max_words": 0}, "greater than 0"),
    ],
)
def test_settings_that_do_not_fit(settings, complaint):
    with pytest.raises(ValidationError) as caught:
        CleaningSettings(**settings)
    assert complaint in str(caught.value)


class TestReport:
    def report(self):
        pairs = [GOOD, GOOD, Pair("", "leer"), *(Pair(f"bell\x07 {n}", "x" * 99) for n in range(6))]
        report = CleaningReport()
        assert list(clean(pairs, CleaningSettings(), ("en", "de"), report)) == [GOOD]
        return report

    def test_counts(self):
        report = self.report()
        assert (report.total, report.kept) == (9, 1)
        assert report.dropped == {"duplicate": 1, "empty": 1, "control characters": 6}

    def test_rows(self):
        assert self.report().rows() == [
            ("empty", 1, 1 / 9, " ||| leer"),
            ("control characters", 6, 6 / 9, f"bell\\u0007 0 ||| {'x' * 59}…"),
            ("duplicate", 1, 1 / 9, "A good sentence. ||| Ein guter Satz."),
        ]

    def test_only_a_few_examples_are_kept(self):
        assert {key: len(some) for key, some in self.report().examples.items()} == {
            "empty": 1,
            "control characters": 3,
            "duplicate": 1,
        }

    def test_json_and_back(self):
        report = self.report()
        saved = json.loads(json.dumps(report.to_json()))
        assert saved["total"] == 9
        assert saved["kept"] == 1
        assert saved["dropped"]["control characters"] == 6
        assert saved["examples"]["empty"] == [["", "leer"]]
        again = CleaningReport.from_json(saved)
        assert again.rows() == report.rows()
        assert again.to_json() == report.to_json()

    def test_of_nothing(self):
        report = CleaningReport()
        assert list(clean([], CleaningSettings(), ("en", "de"), report)) == []
        assert report.rows() == []
        assert report.to_json() == {"total": 0, "kept": 0, "dropped": {}, "examples": {}}


def test_a_stream_is_never_held(monkeypatch):
    monkeypatch.setattr(pair_filters, "CHUNK", 256)

    def peak(rows):
        report = CleaningReport()
        pairs = (Pair(f"A sentence {n % 900} {'a' * 50}", f"Satz {'b' * 50}") for n in range(rows))
        tracemalloc.start()
        kept = sum(1 for _ in clean(pairs, CleaningSettings(), ("en", "de"), report))
        highest = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert kept == 900
        assert report.total == rows
        return highest

    peak(900)  # what is read and made only once does not count
    assert peak(12_000) < 2 * peak(3000)


def test_a_wrong_language_is_dropped_where_asked_for():
    pairs = list(travel(GeneratedSettings(train=2000, valid=1, test=1)).splits["train"]())
    mixed = [Pair(b, a) if n % 20 == 0 else Pair(a, b) for n, (a, b) in enumerate(pairs)]
    report = CleaningReport()
    settings = CleaningSettings(drop_wrong_language=True, drop_duplicates=False)
    kept = list(clean(mixed, settings, ("fr", "en"), report))
    assert report.dropped == {"wrong language": 100}
    assert kept == [pair for n, pair in enumerate(pairs) if n % 20]
