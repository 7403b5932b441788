from types import SimpleNamespace

from regard.tasks.translation.markup.flat_text import (
    PERSONS,
    PLACES,
    PointTag,
    TagPair,
    assign_names,
    flatten,
    protected_texts,
    spellable_names,
)
from regard.tasks.translation.markup.markup_tree import parse_markup
from regard.text.special_tokens import UNK


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


def test_single_tags_have_the_spaces_beside_them():
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


def test_stand_ins_replace_protected_text():
    text, nodes = plain("<b>{x}</b> et {y}", x="Anna")
    assert text == "Anna et"
    assert nodes == (TagPair("<b>", "</b>", 0, 4, ()), PointTag("{y}", 7, True))
    assert list(protected_texts(parse_markup("<b>{x}<i>{y}</i></b>{x}"))) == ["{x}", "{y}", "{x}"]


def test_an_element_of_an_empty_reference_has_no_text():
    assert plain("a <b>&#1;</b> c").text == "a c"


def test_names_that_both_vocabularies_can_spell():
    def knowing(*names):
        return SimpleNamespace(
            encode=lambda texts: [[7] if text in names else [UNK] for text in texts]
        )

    both = knowing("Anna", "Paul", "Paris"), knowing("Paul", "Paris", "Berlin")
    assert spellable_names(both) == [["Paul"], ["Paris"]]


def test_no_name_is_a_part_of_another():
    names = [*PERSONS, *PLACES]
    assert len(set(names)) == len(names)
    assert not [(one, other) for one in names for other in names if one != other and one in other]


def test_stand_in_names_are_different_and_not_in_the_text():
    names = [["Anna", "Paul", "Marie"], ["Paris", "Berlin"]]
    assert assign_names(["{a}", "{b}", "{a}"], names, "Anna dort") == {
        "{a}": ["Paul", "Paris"],
        "{b}": ["Marie", "Berlin"],
    }
    assert assign_names(["{a}", "{b}", "{c}", "{d}"], names, "") == {
        "{a}": ["Anna", "Paris"],
        "{b}": ["Paul", "Berlin"],
        "{c}": ["Marie"],
    }
    assert assign_names(["{a}"], [], "") == {}
