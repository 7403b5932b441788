import pytest

from regard.serving.answer import Answer, Candidate
from regard.serving.server.layout import ENDS, lay_out

TEXTS = ["Un.\n\n  Deux.\r\nTrois.", "", " \n", "Quatre.\n", "a\u2028b\x85c"]


def answer(*texts):
    return Answer("", tuple(Candidate(text, 0.0, 0.0) for text in texts))


@pytest.mark.parametrize("text", [*TEXTS, "".join(f"x{end}" for end in ENDS)])
def test_its_own_lines_give_a_text_back(text):
    layout = lay_out([text])
    assert layout.fill(layout.lines) == [text]


def test_sentences_of_a_line_are_translated_apart():
    layout = lay_out(["Il part.  Elle dort ?\nM. Un reste. ", "走了。睡了。"])
    assert layout.lines == ["Il part.", "Elle dort ?", "M. Un reste.", "走了。", "睡了。"]
    assert layout.fill(["A", "B", "C", "D", "E"]) == ["A  B\nC ", "D E"]


def test_lines_can_be_left_whole():
    assert lay_out(["Il part. Elle dort."], sentences=False).lines == ["Il part. Elle dort."]


def test_only_lines_with_something_in_them_are_translated():
    layout = lay_out(TEXTS)
    assert layout.lines == ["Un.", "  Deux.", "Trois.", "Quatre.", "a", "b", "c"]


def test_translations_stand_where_their_lines_stood():
    layout = lay_out(TEXTS)
    found = layout.best([answer(str(number)) for number in range(7)])
    assert found == ["0\n\n1\r\n2", "", " \n", "3\n", "4\u20285\x856"]


def test_alternatives_hold_nothing_twice_and_not_the_best():
    layout = lay_out(["a\nb", "c", ""])
    answers = [answer("A", "A2", "A3"), answer("B", "B2"), answer("C")]
    assert layout.alternatives(answers, 2) == [["A2\nB2", "A3\nB2"], [], []]
    assert layout.alternatives(answers, 0) == [[], [], []]
