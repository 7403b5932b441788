import pytest

from regard.corpora.diagnostics.surface_checks import SURFACE_CHECKS, CheckCount, SurfaceCounter


@pytest.mark.parametrize(
    ("sign", "shows", "does_not"),
    [
        ("tokenised", "A dog , a cat .", "A dog, a cat."),
        ("lowercase", "a dog.", "A dog."),
        ("escapes", "it &apos;s &#39; here", "Q&A; AT&T"),
        ("tags", "a <b>bold</b> move", "3 < 4 > 2"),
        ("subwords", "a trans@@ lation", "me@home"),
        ("subwords", "▁a ▁word", "a word"),
        ("subwords", "well @-@ known", "well-known"),
        ("garbled", "cafÃ© crÃ¨me", "café crème"),
        ("garbled", "itâ€™s", "it’s"),
        ("garbled", "ÐŸÑ€Ð¸Ð²ÐµÑ‚", "Привет"),
        ("curly", "it’s", "it's"),
    ],
)
def test_signs(sign, shows, does_not):
    assert SURFACE_CHECKS[sign](shows) is True
    assert SURFACE_CHECKS[sign](does_not) is False


@pytest.mark.parametrize(
    ("sign", "line"),
    [
        ("tokenised", "Vraiment ?"),  # French, and no full stop or comma
        ("tokenised", "no stop at all"),
        ("lowercase", "12 + 4"),
        ("lowercase", "你好。"),
        ("curly", "no apostrophe"),
    ],
)
def test_lines_that_could_not_show_a_sign_do_not_count(sign, line):
    assert SURFACE_CHECKS[sign](line) is None


def test_counts():
    count = SurfaceCounter()
    for line in ("A dog .", "A cat.", "a mouse.", "what", "", "  "):
        count.add(line)
    found = count.result()
    assert found.keys() == SURFACE_CHECKS.keys()
    assert found["tokenised"] == CheckCount(3, 1)
    assert found["lowercase"] == CheckCount(4, 2)
    assert found["escapes"] == CheckCount(4, 0)
    assert found["tokenised"].share == pytest.approx(1 / 3)


def test_of_nothing_the_share_is_nothing():
    assert SurfaceCounter().result()["tags"].share == 0


@pytest.mark.parametrize(
    ("line", "odd", "invisible"),
    [
        ("a b", False, False),
        ("a\u00a0b", True, False),
        ("Ça va\u202f?", False, False),
        ("«\u00a0Oui\u00a0»", False, False),
        ("10\u00a0000 €", False, False),
        ("zero\u200bwidth", False, True),
        ("soft\u00adly", False, True),
        ("\ufeffstart", False, True),
        ("می‌خواهم", False, False),  # a joiner that Persian spells with
        ("👩\u200d🚀", False, False),
        ("a\u200d b", False, True),
    ],
)
def test_spaces_and_characters_that_nobody_sees(line, odd, invisible):
    assert SURFACE_CHECKS["odd spaces"](line) is odd
    assert SURFACE_CHECKS["invisible"](line) is invisible
