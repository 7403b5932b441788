import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.tasks.translation.documents.html import read_html
from regard.tasks.translation.markup.markup_translator import translate_markup

PAGE = """<!DOCTYPE html>\r
<html lang="fr"><head><meta charset=utf-8><title>Un voyage</title>
<style>p > a {color: red}</style><script>if (a<b && c) { x("<p>non</p>") }</script></head>
<body class=x onclick='a("b>c")'><!-- une <b>note</b> -->
<h1 id="un">  Le   <em>long</em>
voyage </h1><p>Premier.<p>Deuxième &amp; &lt;dernier&gt;&nbsp;
<ul><li>un<li>42 &#8212; 43</ul><img src="a.png" alt="une image">
<table><tr><td>Paris</td><td>&nbsp;</td></tr></table>
<pre>  un   deux
\ttrois</pre><code>x = y</code><textarea>brouillon</textarea></body></html>
"""
LINES = [
    "Un voyage",
    "Le   <em>long</em>\nvoyage",
    "Premier.",
    "Deuxième &amp; &lt;dernier&gt;&nbsp;",
    "un",
    "42 &#8212; 43",
    "Paris",
    "un",
    "deux",
    "trois",
]


def translated(text, translate):
    page = read_html(text)
    return page.join(translate(page.lines))


def shout(lines):
    return [line.upper() for line in lines]


def test_blocks_are_found():
    assert read_html(PAGE).lines == LINES


def test_all_else_stays_byte_for_byte():
    page = read_html(PAGE)
    assert page.join(page.lines) == PAGE
    rest, marked = PAGE, page.join([f"\0{n}\0" for n in range(len(LINES))])
    for number, line in enumerate(LINES):
        untranslated, rest = rest.split(line, 1)
        begin, marked = marked.split(f"\0{number}\0", 1)
        assert begin == untranslated
    assert marked == rest


@given(st.text(alphabet="<>/!-pbra ='\"&;\n\r") | st.lists(st.sampled_from(
    ["<p>", "</p>", "<b>", "</b>", "<br>", "<pre>", "</pre>", "<p translate=no>", "<script>",
     "</script>", "<!--", "-->", "mot", " ", "\n", "<", "&amp;", "<td>", "<x-y>", "  "]
)).map("".join))  # fmt: skip
def test_any_text_comes_back(text):
    page = read_html(text)
    assert page.join(page.lines) == text
    assert all(line == line.strip() and line for line in page.lines)


def test_fragments_and_empty_documents():
    assert translated("", shout) == ""
    assert translated("un <b>deux</b>", shout) == "UN <B>DEUX</B>"
    assert translated("un</b> deux</div><p", shout) == "UN</B> DEUX</div><P"


@pytest.mark.parametrize(
    ("page", "lines"),
    [
        ("<div translate=no>a<div>b</div>c</div>d", ["d"]),
        ("<p class='x notranslate'>a<p>b", ["b"]),
        ("<div translate=no>a", []),
        ("<p>a <span translate=no>b</span> c</p>", ["a <span translate=no>b</span> c"]),
        ("<li translate='no'>a<li>b</ul><p>c", ["b", "c"]),
        ("b <svg><text>a</text></svg>", ["b <svg><text>a</text></svg>"]),
        ("<p><math><svg>a</svg></math></p>", []),
        ("<svg>a", ["<svg>a"]),
        ("<code>a</code>", []),
    ],
)
def test_elements_marked_as_untranslated_are_copied(page, lines):
    assert read_html(page).lines == lines


def test_two_line_breaks_end_a_block():
    assert read_html("a<br>b<br> <br/>c").lines == ["a<br>b<br> <br/>", "c"]


def test_a_large_page_takes_seconds():
    page = "<p>Un <b>mot</b> &amp; un autre.</p>\n" * 30_000  # 1 MB
    began = time.process_time()
    assert len(read_html(page).lines) == 30_000
    assert read_html("{x} " * 700_000).lines == []  # joined in linear time
    assert time.process_time() - began < 12


def test_markup_goes_through_a_model(translator):
    page = translated(PAGE, lambda lines: translate_markup(translator, lines))
    for untranslated in (
        "<em>",
        "</em>",
        "<script>if (a<b && c)",
        'alt="une image"',
        "<td>&nbsp;</td>",
    ):
        assert page.count(untranslated) == 1
