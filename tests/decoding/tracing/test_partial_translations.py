from itertools import pairwise

from regard.decoding.tracing.partial_translations import PartialTranslations

SENTENCES = ["Jane visite l'Afrique en septembre.", "", "Elle danse."]


def watch(translator, texts, *, leave=None, **options):
    """What was told of each line, and the answers; the line `leave` is left after its first."""
    told = {}

    def on_partial(line, text):
        told.setdefault(line, []).append(text)
        return line != leave

    observed = translator.observed(PartialTranslations(translator.target, on_partial))
    return told, observed.translate(texts, **options)


def test_partial_translations_are_reported_as_they_grow(translator):
    told, answers = watch(translator, SENTENCES)
    assert set(told) == {0, 2}
    for line, texts in told.items():
        assert len(texts) > 2
        assert texts[-1] == answers[line].text
        assert all(one != other for one, other in pairwise(texts))
    assert len(told[0][0]) < len(told[0][-1])


def test_partial_translations_change_no_answer(translator):
    _, answers = watch(translator, SENTENCES)
    plain = translator.translate(SENTENCES)
    assert [one.candidates for one in answers] == [one.candidates for one in plain]


def test_the_parts_of_a_long_line_are_reported_as_one_text(translator):
    told, [answer] = watch(translator, ["Paul aime la mer. " * 10], split=False)
    assert "parts" in answer.notes[0]
    assert told[0][-1] == answer.text


def test_a_line_whose_callback_returns_false_is_cancelled(translator):
    told, answers = watch(translator, SENTENCES, leave=0)
    assert len(told[0]) == 1
    assert len(answers[0].text) < len(translator(SENTENCES[0]).text)
    assert answers[2].text == translator(SENTENCES[2]).text


def test_observers_add_up(translator):
    seen = [[], []]
    twice = translator
    for one in seen:
        twice = twice.observed(
            PartialTranslations(
                translator.target, lambda line, text, to=one: to.append(text) is None
            )
        )
    twice.translate(SENTENCES[2:])
    assert seen[0] == seen[1] != []
