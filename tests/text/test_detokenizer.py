import pytest

from regard.text.detokenizer import detokenize


@pytest.mark.parametrize(
    ("cut", "text"),
    [
        ("Das stimmt nicht !", "Das stimmt nicht!"),
        ("Wir glauben , daß", "Wir glauben, daß"),
        ("it 's ( here ) .", "it's (here)."),
        ("3 % - oder 4 / 5", "3% - oder 4 / 5"),
        ("( so )", "(so)"),
        (". a", ". a"),
        ("d.h. er", "d.h. er"),
        ("Debian の 起動 （ 図 1 ） 。", "Debian の起動（図 1）。"),
        ("", ""),
    ],
)
def test_sentences_as_people_write_them(cut, text):
    words = cut.split()
    glued = detokenize(words)
    assert glued.text == text
    assert len(glued.word_at) == len(text)
    spelled = [
        "".join(c for c, at in zip(text, glued.word_at, strict=True) if at == number)
        for number in range(len(words))
    ]
    assert spelled == words
    assert [at for c, at in zip(text, glued.word_at, strict=True) if c == " "] == [None] * (
        text.count(" ")
    )
