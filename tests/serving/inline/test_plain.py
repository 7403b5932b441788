from regard.serving.inline.pieces import parse
from regard.serving.inline.plain import Standing, Wrapped, flatten, holds_of


def plain(text, **words):
    return flatten(parse(text), {f"{{{name}}}": word for name, word in words.items()})


def test_spaces_in_a_row_are_one():
    assert plain(" a <b> c\n</b>\td ").text == "a c d"


def test_pairs_know_what_they_wrapped():
    text, [outer] = plain("a <b> c <i>d</i>e </b>f")
    assert text == "a c de f"
    assert text[outer.first : outer.last] == "c de"
    [inner] = outer.inside
    assert isinstance(inner, Wrapped)
    assert text[inner.first : inner.last] == "d"


def test_what_stands_alone_knows_the_spaces_beside_it():
    for spaces, between in {
        "a<hr>b": "00",
        "a <hr>b": "10",
        "a<hr> b": "01",
        "a <hr> b": "11",
    }.items():
        text, [node] = plain(spaces)
        assert text == "a b"
        assert (node.place, node.before, node.after) == (1, between[0] == "1", between[1] == "1")


def test_a_line_break_parts_words_and_other_tags_do_not():
    assert plain("a<br>b").text == "a b"
    assert plain("a<wbr>b").text == "ab"
    assert plain("a<b></b>b").text == "ab"
    assert plain("a<b> </b>b").text == "a b"
    assert plain("a{x}b").text == "a b"


def test_markup_in_a_row_stays_together():
    _, [node] = plain("a <br/> <img><b>\n</b>{x} b")
    assert node == Standing("<br/> <img><b>\n</b>{x}", 1, True, True)


def test_words_stand_for_what_is_held():
    text, nodes = plain("<b>{x}</b> et {y}", x="Anna")
    assert text == "Anna et"
    assert nodes == (Wrapped("<b>", "</b>", 0, 4, ()), Standing("{y}", 7, True))
    assert list(holds_of(parse("<b>{x}<i>{y}</i></b>{x}"))) == ["{x}", "{y}", "{x}"]
