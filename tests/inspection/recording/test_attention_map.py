import pytest
import torch

from inspection.recording.test_recorder import Halves
from regard.errors import SettingsError
from regard.inspection.recording.attention_map import AttentionMaps, Axis, build_axis
from regard.text.build import train_tokenizer
from regard.text.settings import TokenizerSettings
from regard.text.special_tokens import BOS, EOS

L, H, V, D = 3, 2, 11, 6
SOURCES = [[4, 5, 6, 7], [8]]  # two words of two pieces; one of one
TARGETS = [[9, 10], [4, 6, 5, 7, 8]]


@pytest.mark.parametrize("kind", [list, tuple])
def test_specials_belong_to_no_word(kind):
    axis = build_axis(kind([BOS, 4, 5, EOS]), Halves())
    assert axis == Axis(("<s>", "▁4", "5", "</s>"), ("45",), (None, 0, 0, None))
    assert build_axis(kind([EOS]), Halves()) == Axis(("</s>",), (), (None,))
    assert build_axis(kind([]), Halves()) == Axis((), (), ())


def test_an_unknown_word_has_its_space_and_may_be_named():
    words = train_tokenizer(["Jane visits ."], TokenizerSettings(kind="words"))
    ids = [BOS, *words.encode(["Jane visits Kampala."])[0], EOS]
    axis = build_axis(ids, words)
    assert axis.pieces == ("<s>", "▁Jane", "▁visits", "▁", "<unk>", "<unk>", "</s>")
    assert axis.words == ("Jane", "visits", "⁇⁇")
    assert axis.word_of == (None, 0, 1, 2, 2, 2, None)
    axis = build_axis(ids, words, ["New York", "!"])
    assert axis.words == ("Jane", "visits", "New", "York!")
    assert axis.word_of == (None, 0, 1, 2, 2, 3, None)


def test_words_without_spaces_are_what_pieces_hold():
    pieces = train_tokenizer(["猫は Debian 猫は Debian"], TokenizerSettings(size=280))
    ids = pieces.encode(["猫は猫はDebianは。"])[0]
    axis = build_axis([*ids, EOS], pieces)
    assert axis.words == ("猫は", "猫", "は", "Debian", "は", "。")
    assert axis.units == axis.sizes == (2, 1, 1, 1, 1, 1)
    assert set(axis.word_of) == {*range(6), None}


def test_select_takes_one_head_or_the_mean():
    layers = torch.rand(L, H, 4, 5)
    axis = Axis((), (), ())
    attention = AttentionMaps("cross", layers, axis, axis)
    torch.testing.assert_close(attention.select(2, 1), layers[2, 1])
    torch.testing.assert_close(attention.select(layer=2), layers[2].mean(0))
    torch.testing.assert_close(attention.select(head=1), layers[:, 1].mean(0))
    torch.testing.assert_close(attention.select(), layers.mean((0, 1)))
    with pytest.raises(SettingsError, match="layer: cross attention has 3, counted from 0; got 3"):
        attention.select(layer=3)
    with pytest.raises(SettingsError, match="head: cross attention has 2, counted from 0; got -1"):
        attention.select(head=-1)


TINY = {
    "rnnsearch": {"width": 8, "embedding": 6, "alignment": 5, "readout": 4},
    "luong": {"width": 8, "embedding": 6, "layers": 1},
    "transformer": {
        "encoder_layers": 1,
        "decoder_layers": 2,
        "width": 8,
        "heads": 2,
        "feed_forward": 12,
    },
}
