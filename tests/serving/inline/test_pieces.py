import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.serving.inline.pieces import (
    DEPTH,
    Atom,
    Element,
    Hold,
    Text,
    keeps,
    markup_of,
    parse,
)


@given(st.text(alphabet="<>/b {}%s$@.:h&;x-\n"))
def test_pieces_are_the_whole_text(text):
    assert "".join(piece.raw for piece in parse(text)) == text


PLACEHOLDERS = ["{name}", "{}", "{0:.2f}", "{{ user.name }}", "${x}", "$VAR"]
CONVERSIONS = ["%s", "%d", "%(name)d", "%1$s", "%5.2f", "%1"]
ADDRESSES = ["https://a.b/c?d=e&f#g", "HTTP://A.B", "www.a.org", "me.too+x@a-b.co.uk"]
CODE = ["<code>a <b> c</code>", "<kbd>x</kbd>", "<math><mi>x</mi></math>"]
KEPT = ["<i translate=no>x</i>", '<span class="a notranslate">x</span>']


@pytest.mark.parametrize("held", [*PLACEHOLDERS, *CONVERSIONS, *ADDRESSES, *CODE, *KEPT])
def test_what_is_held(held):
    assert parse(f"a {held} b") == (Text("a "), Hold(held), Text(" b"))


@pytest.mark.parametrize(
    "text", ["100% sure", "5 % de", "100%", "$5", "a@b", "{a b}", "50%de", "{\n}", "a { b }", "%%"]
)
def test_what_is_not(text):
    assert parse(text) == (Text(text),)


@pytest.mark.parametrize("mark", [".", ",", ")", "!", "?", "»", "'"])
def test_marks_behind_an_address_are_not_part_of_it(mark):
    assert parse(f"https://a.b/c{mark}") == (Hold("https://a.b/c"), Text(mark))


@pytest.mark.parametrize("reference", ["&gt;", "&nbsp;", "&#160;", "&#xA0;", "&quot;"])
def test_a_reference_behind_an_address_is_not_part_of_it(reference):
    assert parse(f"https://a.b/c{reference}") == (Hold("https://a.b/c"), Text(reference))


def test_an_address_may_have_an_ampersand_of_either_kind():
    for address in ("https://a.b/c?d=e&copy=f", "https://a.b/c?d&amp;e=f", "www.a.b?d&amp;"):
        assert parse(f"{address}, d") == (Hold(address), Text(", d"))


def test_tags_wrap_what_is_between_them():
    assert parse("<b>a <i>c</i></b>") == (
        Element("<b>", "</b>", (Text("a "), Element("<i>", "</i>", (Text("c"),)))),
    )


def test_tags_that_are_not_closed_or_opened_wrap_nothing():
    assert parse("<b>a<i>c</b>d</i>") == (
        Element("<b>", "</b>", (Text("a"), Atom("<i>", opens=frozenset("i")), Text("c"))),
        Text("d"),
        Atom("</i>", closes=frozenset("i")),
    )
    assert parse("<b>a") == (Atom("<b>", opens=frozenset("b")), Text("a"))
    assert parse("<b><code></i></code></b>")[0].closes == frozenset("i")


def test_what_stands_alone():
    assert parse("a<br>b<wbr>{\\an8}") == (
        Text("a"),
        Atom("<br>", parts=True),
        Text("b"),
        Atom("<wbr>"),
        Atom("{\\an8}"),
    )


def test_tags_may_lie_as_deep_as_they_like():
    text = "<b>" * 5000 + "x" + "</b>" * 5000
    pieces = parse(text)
    assert len(list(markup_of(pieces))) == 10_000
    depth = 0
    while inner := next((one.inside for one in pieces if isinstance(one, Element)), ()):
        pieces, depth = inner, depth + 1
    assert depth == DEPTH


def test_characters_are_read_by_their_names():
    [text] = parse("l&#39;&Eacute;t&eacute; &amp; &#x41; AT&T &nonsense; &copy")
    assert text.text == "l'Été & A AT&T &nonsense; &copy"


def test_whether_markup_is_kept():
    pieces = parse("<b>a</b> {x} a@b.org")
    assert keeps(pieces, parse("{x} a@b.org <b>c</b>"))
    assert keeps(pieces, parse("{x} a@b.org <b>c</b> and https://c.d"))
    assert not keeps(pieces, parse("{x} a@b.orgs <b>c</b>"))
    assert not keeps(pieces, parse("{x} {x} a@b.org <b>c</b>"))
    assert not keeps(pieces, parse("{x} a@b.org <b>c"))
