import pytest

from regard.pipelines.answer import Answer, Candidate
from regard.server.segmented_texts import segment_texts
from regard.text.segmentation import InputSettings, segment, split_lines

ENDS = "\r\n\v\f\x1c\x1d\x1e\x85\u2028\u2029"
TEXTS = ["Un.\n\n  Deux.\r\nTrois.", "", " \n", "Quatre.\n", "un\u2028deux\x85trois"]


def answer(*texts):
    return Answer("", tuple(Candidate(text, 0.0, 0.0) for text in texts))


def segmented_texts(texts):
    return segment_texts(texts, lambda text: segment(text, InputSettings()))


@pytest.mark.parametrize("text", [*TEXTS, "".join(f"x{end}" for end in ENDS)])
def test_its_own_lines_give_a_text_back(text):
    segmented = segmented_texts([text])
    assert segmented.join_texts(segmented.lines) == [text]


def test_sentences_of_a_line_are_translated_apart():
    segmented = segmented_texts(["Il part.  Elle dort ?\nM. Un reste. ", "走了。睡了。"])
    assert segmented.lines == ["Il part.", "Elle dort ?", "M. Un reste.", "走了。", "睡了。"]
    assert segmented.join_texts(["A", "B", "C", "D", "E"]) == ["A  B\nC ", "D E"]


def test_lines_can_be_left_whole():
    assert segment_texts(["Il part. Elle dort."], split_lines).lines == ["Il part. Elle dort."]


def test_translations_stand_where_their_lines_stood():
    segmented = segmented_texts(TEXTS)
    found = segmented.best([answer(str(number)) for number in range(7)])
    assert found == ["0\n\n  1\r\n2", "", " \n", "3\n", "4\u20285\x856"]


def test_alternatives_hold_nothing_twice_and_not_the_best():
    segmented = segmented_texts(["un\ndeux", "trois", ""])
    answers = [answer("A", "A2", "A3"), answer("B", "B2"), answer("C")]
    assert segmented.alternatives(answers, 2) == [["A2\nB2", "A3\nB2"], [], []]
    assert segmented.alternatives(answers, 0) == [[], [], []]
