from hypothesis import example, given
from hypothesis import strategies as st

from regard.serving.formats.text import read_text


def shouted(text):
    document = read_text(text)
    return document.join([line.upper() for line in document.lines])


def test_lines_keep_what_is_around_them():
    text = "\ufeffUn\r\n\r\n  - deux \n\t3. trois\r* * quatre\n---\n12\n> cinq"
    assert read_text(text).lines == ["Un", "deux", "trois", "quatre", "cinq"]
    assert shouted(text) == ("\ufeffUN\r\n\r\n  - DEUX \n\t3. TROIS\r* * QUATRE\n---\n12\n> CINQ")


@given(st.text(alphabet="ab1 -.>*\t\r\n\ufeff\u2028<&"))
@example(">\t\u2028b")
def test_any_text_comes_back(text):
    document = read_text(text)
    assert document.join(document.lines) == text
    assert all(line.strip() == line and line for line in document.lines)


def test_nothing():
    assert shouted("") == ""
    assert shouted("\n") == "\n"
