import numpy as np
import pytest

from regard.alignment.extraction import AlignmentSettings
from regard.alignment.run_alignment import best_alignment
from regard.pipelines.markup.word_links import link_words, sinkhorn

SETTINGS = AlignmentSettings()


def words(text, spans):
    return [text[slice(*span)] for span in spans]


def test_words_without_a_model_are_linked_by_their_places():
    [linked] = link_words(None, [("un deux, trois quatre", "one two")], SETTINGS)
    assert words("un deux, trois quatre", linked.source) == ["un", "deux", "trois", "quatre"]
    np.testing.assert_allclose(linked.weights, [[0.25, 0.25, 0, 0], [0, 0, 0.25, 0.25]])
    [linked] = link_words(None, [("", "one")], SETTINGS)
    assert linked.weights.shape == (1, 0)


def test_words_are_linked_by_attention(translator):
    run = translator.runs[0]
    pairs = [("Jane visite l'Afrique.", "Jane visits Africa."), ("", "")]
    linked, empty = link_words(run, pairs, best_alignment(run))
    assert words(pairs[0][0], linked.source) == ["Jane", "visite", "l", "Afrique"]
    assert words(pairs[0][1], linked.target) == ["Jane", "visits", "Africa"]
    assert linked.weights.shape == (3, 4)
    np.testing.assert_allclose(linked.weights.sum(1), 1)
    assert empty.weights.shape == (0, 0)


def test_what_is_too_long_is_linked_by_its_places(translator):
    long = "la mer " * 60
    [linked] = link_words(translator.runs[0], [(long, long)], SETTINGS)
    assert len(linked.source) == 120
    np.testing.assert_allclose(linked.weights, np.eye(120) / 120, atol=1e-12)


def test_scripts_without_spaces_are_cut_into_tokens(translator):
    text = "日本語です a"
    [linked] = link_words(translator.runs[0], [(text, text)], SETTINGS)
    found = words(text, linked.source)
    assert found[-1] == "a"
    assert len(found) > 2
    assert "".join(found[:-1]) == "日本語です"


def test_a_latin_word_within_such_a_script_is_one_word(translator):
    text = "東京でJaneです"
    [linked] = link_words(translator.runs[0], [(text, text)], SETTINGS)
    assert "Jane" in words(text, linked.source)
    [linked] = link_words(None, [(text, "a b")], SETTINGS)
    assert words(text, linked.source) == ["東", "京", "で", "Jane", "で", "す"]


def test_balanced_weights():
    weights = np.array([[0.9, 0.1], [0.6, 0.4], [0.0, 0.0]])
    normalized = sinkhorn(weights, 1)
    np.testing.assert_allclose(normalized.sum(1), [1, 1, 0])
    assert normalized[1, 1] > 0.5
    assert sinkhorn(weights, 0) is weights
    assert sinkhorn(np.zeros((0, 2))).shape == (0, 2)


@pytest.mark.parametrize("rounds", [1, 5, 50])
def test_balancing_changes_no_clear_links(rounds):
    np.testing.assert_allclose(sinkhorn(np.eye(3), rounds), np.eye(3))
