import pytest

from regard.server.service import SegmentedTexts
from regard.tasks.families.answer import Answer, Candidate
from regard.text.segmentation import InputSettings, segment, split_lines

ENDS = "\r\n\v\f\x1c\x1d\x1e\x85\u2028\u2029"
TEXTS = ["Un.\n\n  Deux.\r\nTrois.", "", " \n", "Quatre.\n", "un\u2028deux\x85trois"]


def answer(*texts):
    return Answer("", tuple(Candidate(text, 0.0, 0.0) for text in texts))


def segmented_texts(texts):
    return SegmentedTexts([segment(text, InputSettings()) for text in texts])


@pytest.mark.parametrize("text", [*TEXTS, "".join(f"x{end}" for end in ENDS)])
def test_joining_the_lines_of_a_text_gives_the_text(text):
    segmented = segmented_texts([text])
    assert segmented.join(segmented.lines) == [text]


def test_the_sentences_of_a_line_are_segments():
    segmented = segmented_texts(["Il part.  Elle dort ?\nM. Un reste. ", "走了。睡了。"])
    assert segmented.lines == ["Il part.", "Elle dort ?", "M. Un reste.", "走了。", "睡了。"]
    assert segmented.join(["A", "B", "C", "D", "E"]) == ["A  B\nC ", "D E"]


def test_lines_can_be_whole_segments():
    whole = SegmentedTexts([split_lines("Il part. Elle dort.")])
    assert whole.lines == ["Il part. Elle dort."]


def test_translations_replace_their_lines():
    segmented = segmented_texts(TEXTS)
    found = segmented.translations([answer(str(number)) for number in range(7)], 1)
    assert found == [["0\n\n  1\r\n2"], [""], [" \n"], ["3\n"], ["4\u20285\x856"]]


def test_the_n_best_translations_of_a_text_are_made_of_the_n_best_of_its_lines():
    segmented = segmented_texts(["un\ndeux", "trois", ""])
    answers = [answer("A", "A2", "A3"), answer("B", "B2"), answer("C")]
    assert segmented.translations(answers, 3) == [["A\nB", "A2\nB2", "A3\nB2"], ["C"], [""]]
    assert segmented.translations(answers, 1) == [["A\nB"], ["C"], [""]]
