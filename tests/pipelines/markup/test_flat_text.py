from regard.pipelines.markup.flat_text import PointTag, TagPair, flatten, protected_texts
from regard.pipelines.markup.markup_tree import parse_markup


def plain(text, **stand_ins):
    return flatten(parse_markup(text), {f"{{{name}}}": word for name, word in stand_ins.items()})


def test_spaces_in_a_row_are_one():
    assert plain(" a <b> c\n</b>\td ").text == "a c d"


def test_pairs_know_what_they_wrapped():
    text, [outer] = plain("a <b> c <i>d</i>e </b>f")
    assert text == "a c de f"
    assert text[outer.first : outer.last] == "c de"
    [inner] = outer.inside
    assert isinstance(inner, TagPair)
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
    assert node == PointTag("<br/> <img><b>\n</b>{x}", 1, True, True)


def test_words_stand_for_what_is_held():
    text, nodes = plain("<b>{x}</b> et {y}", x="Anna")
    assert text == "Anna et"
    assert nodes == (TagPair("<b>", "</b>", 0, 4, ()), PointTag("{y}", 7, True))
    assert list(protected_texts(parse_markup("<b>{x}<i>{y}</i></b>{x}"))) == ["{x}", "{y}", "{x}"]
