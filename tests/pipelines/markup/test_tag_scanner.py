import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.pipelines.markup.tag_scanner import scan_markup


def kinds(text):
    return [(one.kind, one.text) for one in scan_markup(text)]


@given(st.text(alphabet="<>/!-?ab='\" 1:.[]CDAT&"))
def test_stretches_are_the_whole_text(text):
    assert "".join(one.text for one in scan_markup(text)) == text


def test_tags_and_what_stands_alone():
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
def test_a_sign_that_begins_no_tag_is_text(text):
    assert kinds(text) == [("text", text)]


@pytest.mark.parametrize(
    "text",
    ["<!-- <b> -->", "<!DOCTYPE html>", "<?xml version='1.0'?>", "<![CDATA[ <b> ]]>", "<00:01.5>"],
)
def test_what_is_no_tag_and_no_text(text):
    assert kinds(text) == [("other", text)]


@pytest.mark.parametrize(
    "tag", ['<a title="a > b">', "<a title='<i>'>", "<a b = 'c>' d=e>", "<p don't>", "<a b='c>"]
)
def test_attributes(tag):
    assert kinds(f"{tag}x") == [("open", tag), ("text", "x")]


def test_scripts_are_not_read():
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
def test_time_grows_with_the_length_alone(unit):
    def seconds(size):
        began = time.process_time()
        assert len(list(scan_markup(unit * size))) == 1
        return time.process_time() - began

    assert seconds(80_000) < 20 * seconds(20_000) + 0.2  # square would be a minute
