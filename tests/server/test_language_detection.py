import pytest

from regard.server.language_detection import (
    MAX_CHARACTERS,
    Detector,
    char_ngrams,
    excerpt,
    strip_tags,
)

FRENCH = ["Jane visite l'Afrique en septembre.", "Elle ne la visite pas.", "Où est la gare ?"]
ENGLISH = ["Jane visits Africa in September.", "She does not visit it.", "Where is the station?"]


@pytest.fixture
def detector():
    return Detector({"fr": FRENCH, "en": ENGLISH})


@pytest.mark.parametrize(("text", "language"), [("la visite", "fr"), ("the visit", "en")])
def test_texts_of_either_language_are_detected(detector, text, language):
    best, other = detector.detect(text)
    assert best.language == language
    assert best.confidence > 90 > other.confidence
    assert best.confidence + other.confidence <= 100


@pytest.mark.parametrize("text", ["你好", "", "12 + 3!", "\ud800"])
def test_a_text_unlike_the_training_data_has_confidence_0(detector, text):
    assert [guess.confidence for guess in detector.detect(text)] == [0, 0]


def test_unknown_ngrams_lower_the_confidence(detector):
    known, half = (detector.detect(text)[0].confidence for text in ("the visit", "the zzzzz"))
    assert known > half > 0


def test_a_language_without_texts_cannot_be_detected():
    assert Detector({"fr": FRENCH, "en": []}).languages == ["fr"]
    assert Detector({}).detect("la visite") == []


def test_ngrams_of_a_word():
    assert list(char_ngrams("Où, 1?")) == ["o", "ù", " o", "où", "ù ", " où", "où "]


def test_detection_among_candidates(detector):
    [guess] = detector.detect("the visit", candidates=["fr"])
    assert guess.language == "fr"
    assert guess.confidence < detector.detect("the visit")[0].confidence


@pytest.mark.parametrize(
    ("text", "sure"),
    [
        ("She does not visit the station.", True),
        ("Elle ne visite pas la gare.", False),
        ("station", False),  # a single word may be a name
        ("She visits it. Elle ne visite pas la gare en septembre.", False),
        ("She does zzzzzz xxxxxx qqqqqq", False),
        ("12:30", False),
        ("", False),
    ],
)
def test_a_text_certainly_in_a_language(detector, text, sure):
    assert detector.is_certainly(text, "en") is sure


def test_excerpts_are_from_all_over_a_long_text(detector):
    text = "She does not visit it. " * 100 + "Elle ne la visite pas. " * 300
    assert len(excerpt(text)) < MAX_CHARACTERS + 10
    assert detector.detect(text)[0].language == "fr"


def test_tags_and_scripts_are_stripped():
    page = '<p class="a">Elle <b>part</b><script>var x = "<b>";</script><STYLE>p</STYLE>.</p> 1 < 2'
    assert " ".join(strip_tags(page).split()) == "Elle part . 1 < 2"
