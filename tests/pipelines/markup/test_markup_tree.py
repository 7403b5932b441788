import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.pipelines.markup.markup_tree import (
    MAX_TAG_DEPTH,
    Element,
    ProtectedNode,
    SingleTag,
    TextNode,
    has_same_markup,
    list_markup,
    parse_markup,
)


@given(st.text(alphabet="<>/b {}%s$@.:h&;x-\n"))
def test_pieces_are_the_whole_text(text):
    assert "".join(node.raw for node in parse_markup(text)) == text


PLACEHOLDERS = ["{name}", "{}", "{0:.2f}", "{{ user.name }}", "${x}", "$VAR"]
CONVERSIONS = ["%s", "%d", "%(name)d", "%1$s", "%5.2f", "%1"]
ADDRESSES = ["https://a.b/c?d=e&f#g", "HTTP://A.B", "www.a.org", "me.too+x@a-b.co.uk"]
CODE = ["<code>a <b> c</code>", "<kbd>x</kbd>", "<math><mi>x</mi></math>"]
KEPT = ["<i translate=no>x</i>", '<span class="a notranslate">x</span>']


@pytest.mark.parametrize("held", [*PLACEHOLDERS, *CONVERSIONS, *ADDRESSES, *CODE, *KEPT])
def test_what_is_held(held):
    assert parse_markup(f"a {held} b") == (TextNode("a "), ProtectedNode(held), TextNode(" b"))


@pytest.mark.parametrize(
    "text", ["100% sure", "5 % de", "100%", "$5", "a@b", "{a b}", "50%de", "{\n}", "a { b }", "%%"]
)
def test_what_is_not(text):
    assert parse_markup(text) == (TextNode(text),)


@pytest.mark.parametrize("mark", [".", ",", ")", "!", "?", "»", "'"])
def test_marks_behind_an_address_are_not_part_of_it(mark):
    assert parse_markup(f"https://a.b/c{mark}") == (ProtectedNode("https://a.b/c"), TextNode(mark))


@pytest.mark.parametrize("reference", ["&gt;", "&nbsp;", "&#160;", "&#xA0;", "&quot;"])
def test_a_reference_behind_an_address_is_not_part_of_it(reference):
    assert parse_markup(f"https://a.b/c{reference}") == (
        ProtectedNode("https://a.b/c"),
        TextNode(reference),
    )


def test_an_address_may_have_an_ampersand_of_either_kind():
    for address in ("https://a.b/c?d=e&copy=f", "https://a.b/c?d&amp;e=f", "www.a.b?d&amp;"):
        assert parse_markup(f"{address}, d") == (ProtectedNode(address), TextNode(", d"))


def test_tags_wrap_what_is_between_them():
    assert parse_markup("<b>a <i>c</i></b>") == (
        Element("<b>", "</b>", (TextNode("a "), Element("<i>", "</i>", (TextNode("c"),)))),
    )


def test_tags_that_are_not_closed_or_opened_wrap_nothing():
    assert parse_markup("<b>a<i>c</b>d</i>") == (
        Element(
            "<b>", "</b>", (TextNode("a"), SingleTag("<i>", opens=frozenset("i")), TextNode("c"))
        ),
        TextNode("d"),
        SingleTag("</i>", closes=frozenset("i")),
    )
    assert parse_markup("<b>a") == (SingleTag("<b>", opens=frozenset("b")), TextNode("a"))
    assert parse_markup("<b><code></i></code></b>")[0].closes == frozenset("i")


def test_what_stands_alone():
    assert parse_markup("a<br>b<wbr>{\\an8}") == (
        TextNode("a"),
        SingleTag("<br>", separates_words=True),
        TextNode("b"),
        SingleTag("<wbr>"),
        SingleTag("{\\an8}"),
    )


def test_tags_may_lie_as_deep_as_they_like():
    text = "<b>" * 5000 + "x" + "</b>" * 5000
    tree = parse_markup(text)
    assert len(list(list_markup(tree))) == 10_000
    depth = 0
    while inner := next((one.inside for one in tree if isinstance(one, Element)), ()):
        tree, depth = inner, depth + 1
    assert depth == MAX_TAG_DEPTH


def test_characters_are_read_by_their_names():
    [text] = parse_markup("l&#39;&Eacute;t&eacute; &amp; &#x41; AT&T &nonsense; &copy")
    assert text.text == "l'Été & A AT&T &nonsense; &copy"


def test_whether_markup_is_kept():
    tree = parse_markup("<b>a</b> {x} a@b.org")
    assert has_same_markup(tree, parse_markup("{x} a@b.org <b>c</b>"))
    assert has_same_markup(tree, parse_markup("{x} a@b.org <b>c</b> and https://c.d"))
    assert not has_same_markup(tree, parse_markup("{x} a@b.orgs <b>c</b>"))
    assert not has_same_markup(tree, parse_markup("{x} {x} a@b.org <b>c</b>"))
    assert not has_same_markup(tree, parse_markup("{x} a@b.org <b>c"))
