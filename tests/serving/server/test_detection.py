import pytest

from regard.serving.server.detection import Detector, letter_groups

FRENCH = ["Jane visite l'Afrique en septembre.", "Elle ne la visite pas.", "Où est la gare ?"]
ENGLISH = ["Jane visits Africa in September.", "She does not visit it.", "Where is the station?"]


@pytest.fixture
def detector():
    return Detector({"fr": FRENCH, "en": ENGLISH})


@pytest.mark.parametrize(("text", "language"), [("la visite", "fr"), ("the visit", "en")])
def test_texts_of_either_language(detector, text, language):
    best, other = detector.detect(text)
    assert best.language == language
    assert best.confidence > 90 > other.confidence
    assert best.confidence + other.confidence <= 100


@pytest.mark.parametrize("text", ["你好", "", "12 + 3!", "\ud800"])
def test_of_what_is_like_nothing_it_is_not_sure(detector, text):
    assert [guess.confidence for guess in detector.detect(text)] == [0, 0]


def test_the_less_is_known_of_a_text_the_less_sure_it_is(detector):
    known, half = (detector.detect(text)[0].confidence for text in ("the visit", "the zzzzz"))
    assert known > half > 0


def test_a_language_without_texts_cannot_be_detected():
    assert Detector({"fr": FRENCH, "en": []}).languages == ["fr"]
    assert Detector({}).detect("la visite") == []


def test_letters_together():
    assert list(letter_groups("Où, 1?")) == ["o", "ù", " o", "où", "ù ", " où", "où "]
