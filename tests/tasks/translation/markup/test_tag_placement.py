import re

import numpy as np
import pytest

from regard.tasks.translation.markup.flat_text import flatten
from regard.tasks.translation.markup.markup_tree import parse_markup
from regard.tasks.translation.markup.tag_placement import TagPlacer
from regard.tasks.translation.markup.word_links import TextLinks, WordSpans, sentence_links
from regard.text.segmentation import Span


def side(text):
    return WordSpans(text, [Span(*found.span()) for found in re.finditer(r"\w+", text)])


def place(source, target, sources=None):
    """The target with the markup of the source; `sources` has a source word for each of its own."""
    plain = flatten(parse_markup(source), {})
    here, there = side(plain.text), side(target)
    weights = np.zeros((len(there.words), len(here.words)))
    for row, column in enumerate(sources or range(len(there.words))):
        for one in str(column):
            weights[row, int(one)] += 1
    one = sentence_links(range(len(here.words)), range(len(there.words)), weights)
    write = lambda first, last: target[first:last]  # noqa: E731
    return TagPlacer(here, there, TextLinks([one]), write).place(plain.nodes)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("<b>un</b> deux", "<b>one</b> two"),
        ("un <b>deux</b>.", "one <b>two</b>."),
        ("un <b>deux.</b>", "one <b>two.</b>"),
        ("(<b>un</b>) deux", "(<b>one</b>) two"),
        ("<b>(un)</b> deux", "<b>(one)</b> two"),
        ("« <b>un</b> » deux", "“<b>one</b>” two"),
        ("<b>« un »</b> deux", "<b>“one”</b> two"),
        ('un <b>"deux"</b>.', "one <b>“two”</b>."),
        ("<b>un deux !</b>", "<b>one two!</b>"),
        ("un deux<b> !</b>", "one two<b>!</b>"),
        ("un deux<b>?</b>", "one two!<b></b>"),
        ("<b><i>un</i> deux</b>", "<b><i>one</i> two</b>"),
        ("<b> un </b>deux", "<b>one</b> two"),
    ],
)
def test_tags_are_around_words_and_marks_as_they_were(source, target):
    assert place(source, re.sub("<[^>]*>", "", target)) == target


def test_words_that_change_places_take_their_tags_along():
    assert place("un <b>chat</b> <i>noir</i>", "a black cat", [0, 2, 1]) == (
        "a <i>black</i> <b>cat</b>"
    )
    assert place("<b>un <i>chat</i></b> noir", "cat a black", [1, 0, 2]) == (
        "<b><i>cat</i> a</b> black"
    )


def test_words_that_stand_apart_are_wrapped_where_most_are():
    assert place("<b>un deux trois</b> quatre cinq", "one two four five six", [0, 1, 3, 4, 2]) == (
        "<b>one two</b> four five six"
    )
    assert place("<b>un deux trois</b> quatre", "one two four three", [0, 1, 3, 2]) == (
        "<b>one two</b> four three"
    )
    assert place("<b>un deux trois</b> quatre", "one four two three", [0, 3, 1, 2]) == (
        "<b>one four two three</b>"
    )


def test_a_word_within_is_wrapped_along():
    assert place("<b>un deux</b> trois", "one well two three", ["0", "012", "1", "2"]) == (
        "<b>one well two</b> three"
    )


def test_tags_whose_words_are_gone_wrap_nothing():
    assert place("un <b>deux</b> trois", "one three", [0, 2]) == "one <b></b>three"
    assert place("un <b>deux <i>trois</i></b>", "one", [0]) == "one<b><i></i></b>"


def test_tags_beside_each_other_do_not_overlap():
    assert place("<b>un</b> <i>deux</i>", "one", ["01"]) in (
        "<b>one</b><i></i>",
        "<b></b><i>one</i>",
    )
    assert place("<b>un deux</b> <i>trois</i>", "one three two", [0, 2, 1]) == (
        "<b>one</b> <i>three</i> two"
    )


def test_tags_without_a_word_do_not_take_that_of_others():
    assert place("<b>à</b> <i>pied</i> vite", "foot fast", ["011", "2"]) in (
        "<b></b><i>foot</i> fast",
        "<i>foot</i> <b></b>fast",
        "<i>foot</i><b></b> fast",
    )


def test_tags_within_a_copied_word_wrap_the_same_characters():
    assert place("de l'H<sub>2</sub>O", "some H2O", [0, 2]) == "some H<sub>2</sub>O"
    assert place("<b>H</b><i>2</i>O", "H2O") == "<b>H</b><i>2</i>O"
    assert place("<b>chat</b>on", "kitten") == "<b>kitten</b>"


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("un<br/>deux", "one<br/>two"),
        ("un <br/> deux", "one <br/> two"),
        ("un.<br/>deux", "one.<br/>two"),
        ("un. <br/>deux", "one. <br/>two"),
        ("un<br/> deux", "one<br/> two"),
        ("<br/>un deux", "<br/>one two"),
        ("un deux<br/>", "one two<br/>"),
        ("un deux<img>.", "one two<img>."),
        ("un (<img>deux)", "one (<img>two)"),
        ("<b>un</b><br/><i>deux</i>", "<b>one</b><br/><i>two</i>"),
        ("<b>un<br/>deux</b>", "<b>one<br/>two</b>"),
    ],
)
def test_single_tags_stay_beside_their_neighbours(source, target):
    plain = re.sub("<br/>", " ", re.sub("<(?!br)[^>]*>", "", target))
    assert place(source, " ".join(plain.split())) == target


def test_single_tags_do_not_move_into_pairs():
    assert place("<b>un deux</b> <br/> trois", "one three two", [0, 2, 1]).count("<br/></b>") == 0
    answer = place("<b>un deux</b> <br/> trois", "three one two", [2, 0, 1])
    assert "<b>one two</b>" in answer


def test_an_empty_translation_has_all_markup():
    assert place("<b>un</b> <br/> <i>deux</i>", "", []) == "<b></b><br/><i></i>"


def test_tags_that_are_no_pair_do_not_become_one():
    assert place("un </i>deux <i>trois", "three one", [2, 0]) == "three one </i> <i>"
    assert place("un <b></i>deux</b> <i>trois", "a b", [2, 1]) == "a <b></i>b</b> <i>"
    held = "un <code></i></code> deux <i>trois"
    assert place(held, "three one", [2, 0]) == "three one <code></i></code> <i>"


def test_a_script_without_an_end_stays_behind_everything():
    assert place("un deux<script> a()", "two!", [1]) == "two!<script> a()"
