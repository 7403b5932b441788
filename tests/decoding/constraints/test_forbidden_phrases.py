"""Forbidden words as phrases of ids."""

from regard.decoding.constraints.forbidden_phrases import forbidden_phrases


class Pieces:
    """A vocabulary that cuts a text into the longest pieces that fit, behind a space."""

    opening = ()

    def __init__(self, *pieces):
        self._pieces = ["<pad>", "<unk>", "<s>", "</s>", *pieces]
        self.size = len(self._pieces)

    def encode(self, texts):
        return [self._encode("▁" + text.replace(" ", "▁")) if text else [] for text in texts]

    def pieces(self, ids):
        return [self._pieces[id_] for id_ in ids]

    def _encode(self, text):
        if not text:
            return []
        fit = [piece for piece in self._pieces[4:] if text.startswith(piece)]
        best = max(fit, key=len, default="")
        return [self._pieces.index(best or "<unk>"), *self._encode(text[len(best or " ") :])]


def spelled_phrases(words, *pieces):
    target = Pieces(*pieces)
    return {" ".join(target.pieces(ids)) for ids in forbidden_phrases(words, target)}


def test_a_word_between_spaces_is_forbidden_as_a_word_alone():
    assert spelled_phrases(["car", ""], "▁", "▁car", "car", "c", "ar") == {"▁car"}


def test_a_word_without_spaces_is_forbidden_inside_a_sentence_too():
    pieces = "▁", "東", "京", "東京", "▁東", "東京都", "▁car", "car"
    found = {"▁東 京", "東 京", "東京"}
    assert spelled_phrases(["東京"], *pieces) - {"▁ 東京"} == found
    assert spelled_phrases(["東京", "car"], *pieces) - {"▁ 東京"} == found | {"▁car"}


def test_what_cannot_be_spelled_forbids_nothing():
    assert spelled_phrases(["東京"], "▁", "東") == set()


def test_a_long_word_is_not_spelled_for_ever():
    pieces = "▁", "あ", "ああ", "あああ"
    assert 1000 <= len(spelled_phrases(["あ" * 40], *pieces)) <= 1002
    assert spelled_phrases(["あ" * 40 + "ん"], *pieces) == set()
    assert len(spelled_phrases(["あ" * 4000], "▁", "あ" * 100)) == 2
