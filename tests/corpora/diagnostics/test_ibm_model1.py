import numpy as np

from regard.corpora.diagnostics.ibm_model1 import IbmModel1, RaggedWords, index_words


def test_words_are_numbered_by_frequency_and_rare_ones_left_out():
    texts, share = index_words(["a b", "b a b", "b c"])
    assert texts.words.tolist() == [2, 1, 1, 2, 1]
    assert texts.sizes.tolist() == [2, 2, 1]
    np.testing.assert_allclose(share, [0, 0.6, 0.4])


def test_taking_and_keeping():
    texts = RaggedWords(np.array([5, 6, 7, 8]), np.array([2, 0, 2]))
    assert texts.take(np.array([2, 1, 0])).words.tolist() == [7, 8, 5, 6]
    assert texts.keep(np.array([True, False, True, True])).sizes.tolist() == [1, 0, 2]


def test_a_translation_gains_more_than_another_word():
    sources = index_words(["x y", "x z", "y z"] * 20)
    targets = index_words(["a b", "a c", "b c"] * 20)
    model = IbmModel1(sources.texts, targets.texts, len(sources.share))
    true = model.log_gains(sources.texts, targets.texts, sources.share)
    wrong = model.log_gains(
        sources.texts, targets.texts.take(np.roll(np.arange(60), 1)), sources.share
    )
    assert (true > 0.5).all()
    assert wrong.mean() < true.mean()
