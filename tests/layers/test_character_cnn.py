import torch

from regard.layers.character_cnn import (
    BYTES,
    PADDING,
    WORD_BEGIN,
    WORD_END,
    CharacterCnn,
    Highway,
    spell_words,
)

D = 6


def test_words_are_spelled_in_bytes_between_marks():
    found = spell_words(["é", "abcdef", ""], 5).tolist()
    assert found == [
        [WORD_BEGIN, BYTES + 0xC3, BYTES + 0xA9, WORD_END, PADDING],
        [WORD_BEGIN, BYTES + ord("a"), BYTES + ord("b"), BYTES + ord("c"), WORD_END],
        [WORD_BEGIN, WORD_END, PADDING, PADDING, PADDING],
    ]


def test_a_highway_is_the_formula():
    layer = Highway(3, 1).double()
    x = torch.randn(2, 3, dtype=torch.float64)
    new, gate = (x @ layer.layers[0].weight.T + layer.layers[0].bias).chunk(2, -1)
    gate = gate.sigmoid()
    torch.testing.assert_close(layer(x), gate * new.relu() + (1 - gate) * x)


def test_a_word_has_one_vector_wherever_it_stands():
    cnn = CharacterCnn(D, symbol_width=4, filters=((1, 3), (2, 5)), highways=2)
    spelled = spell_words(["cat", "the", "cat"], 8)
    vectors = cnn(spelled.view(1, 3, 8))
    assert vectors.shape == (1, 3, D)
    torch.testing.assert_close(vectors[0, 0], vectors[0, 2])
    assert not torch.allclose(vectors[0, 0], vectors[0, 1])
