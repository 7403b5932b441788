import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.tasks.translation.markup.markup_tree import (
    MAX_TAG_DEPTH,
    Element,
    Leaf,
    has_same_markup,
    list_markup,
    parse_markup,
    scan_markup,
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
def test_placeholders_addresses_and_code_are_protected(held):
    assert parse_markup(f"a {held} b") == (
        Leaf("text", "a "),
        Leaf("protected", held),
        Leaf("text", " b"),
    )


@pytest.mark.parametrize(
    "text", ["100% sure", "5 % de", "100%", "$5", "a@b", "{a b}", "50%de", "{\n}", "a { b }", "%%"]
)
def test_text_that_looks_like_a_placeholder_is_text(text):
    assert parse_markup(text) == (Leaf("text", text),)


@pytest.mark.parametrize("mark", [".", ",", ")", "!", "?", "»", "'"])
def test_marks_behind_an_address_are_not_part_of_it(mark):
    assert parse_markup(f"https://a.b/c{mark}") == (
        Leaf("protected", "https://a.b/c"),
        Leaf("text", mark),
    )


@pytest.mark.parametrize("reference", ["&gt;", "&nbsp;", "&#160;", "&#xA0;", "&quot;"])
def test_a_reference_behind_an_address_is_not_part_of_it(reference):
    assert parse_markup(f"https://a.b/c{reference}") == (
        Leaf("protected", "https://a.b/c"),
        Leaf("text", reference),
    )


def test_an_address_may_have_an_ampersand_of_either_kind():
    for address in ("https://a.b/c?d=e&copy=f", "https://a.b/c?d&amp;e=f", "www.a.b?d&amp;"):
        assert parse_markup(f"{address}, d") == (Leaf("protected", address), Leaf("text", ", d"))


def test_tags_wrap_what_is_between_them():
    assert parse_markup("<b>a <i>c</i></b>") == (
        Element("<b>", "</b>", (Leaf("text", "a "), Element("<i>", "</i>", (Leaf("text", "c"),)))),
    )


def test_tags_without_a_partner_become_single_tags():
    assert parse_markup("<b>a<i>c</b>d</i>") == (
        Element(
            "<b>",
            "</b>",
            (Leaf("text", "a"), Leaf("tag", "<i>", opens=frozenset("i")), Leaf("text", "c")),
        ),
        Leaf("text", "d"),
        Leaf("tag", "</i>", closes=frozenset("i")),
    )
    assert parse_markup("<b>a") == (Leaf("tag", "<b>", opens=frozenset("b")), Leaf("text", "a"))
    assert parse_markup("<b><code></i></code></b>")[0].closes == frozenset("i")


def test_single_tags():
    assert parse_markup("a<br>b<wbr>{\\an8}") == (
        Leaf("text", "a"),
        Leaf("break", "<br>"),
        Leaf("text", "b"),
        Leaf("tag", "<wbr>"),
        Leaf("tag", "{\\an8}"),
    )


def test_tags_are_paired_up_to_a_depth():
    text = "<b>" * 5000 + "x" + "</b>" * 5000
    tree = parse_markup(text)
    assert len(list(list_markup(tree))) == 10_000
    depth = 0
    while inner := next((one.inside for one in tree if isinstance(one, Element)), ()):
        tree, depth = inner, depth + 1
    assert depth == MAX_TAG_DEPTH


def test_character_references_are_resolved():
    [text] = parse_markup("l&#39;&Eacute;t&eacute; &amp; &#x41; AT&T &nonsense; &copy")
    assert text.text == "l'Été & A AT&T &nonsense; &copy"


def test_whether_markup_is_kept():
    tree = parse_markup("<b>a</b> {x} a@b.org")
    assert has_same_markup(tree, parse_markup("{x} a@b.org <b>c</b>"))
    assert has_same_markup(tree, parse_markup("{x} a@b.org <b>c</b> and https://c.d"))
    assert not has_same_markup(tree, parse_markup("{x} a@b.orgs <b>c</b>"))
    assert not has_same_markup(tree, parse_markup("{x} {x} a@b.org <b>c</b>"))
    assert not has_same_markup(tree, parse_markup("{x} a@b.org <b>c"))


def kinds(text):
    return [(one.kind, one.text) for one in scan_markup(text)]


@given(st.text(alphabet="<>/!-?ab='\" 1:.[]CDAT&"))
def test_tokens_are_the_whole_text(text):
    assert "".join(one.text for one in scan_markup(text)) == text


def test_tags():
    assert kinds("a<B id='1'>c</b ><br><x/><img src=a>") == [
        ("text", "a"),
        ("open", "<B id='1'>"),
        ("text", "c"),
        ("close", "</b >"),
        ("void", "<br>"),
        ("void", "<x/>"),
        ("void", "<img src=a>"),
    ]
    assert [one.name for one in scan_markup("<B></b><v.loud Ann>")] == ["b", "b", "v.loud"]


@pytest.mark.parametrize(
    "text", ["a < b", "<3", "a <b", "<", "<>", "< b>", "<!-- never", "1 <2 and 3> 2", "</", "<![x"]
)
def test_a_character_that_begins_no_tag_is_text(text):
    assert kinds(text) == [("text", text)]


@pytest.mark.parametrize(
    "text",
    ["<!-- <b> -->", "<!DOCTYPE html>", "<?xml version='1.0'?>", "<![CDATA[ <b> ]]>", "<00:01.5>"],
)
def test_comments_declarations_and_times(text):
    assert kinds(text) == [("other", text)]


@pytest.mark.parametrize(
    "tag", ['<a title="a > b">', "<a title='<i>'>", "<a b = 'c>' d=e>", "<p don't>", "<a b='c>"]
)
def test_attributes(tag):
    assert kinds(f"{tag}x") == [("open", tag), ("text", "x")]


def test_the_content_of_scripts_is_raw():
    assert kinds("<script>if (a<b) {'</p>'}</SCRIPT >x") == [
        ("open", "<script>"),
        ("raw", "if (a<b) {'</p>'}"),
        ("close", "</SCRIPT >"),
        ("text", "x"),
    ]
    assert kinds("<style>p {}") == [("open", "<style>"), ("raw", "p {}")]


@pytest.mark.parametrize(
    "unit", ["<a ", '<a "', '<a ="', "<a b='", "<", "<!--", "<![", "</", "<?", "<1", "<a ='\""]
)
def test_scanning_takes_linear_time(unit):
    def seconds(size):
        began = time.process_time()
        assert len(list(scan_markup(unit * size))) == 1
        return time.process_time() - began

    assert seconds(80_000) < 20 * seconds(20_000) + 0.2  # square would be a minute
