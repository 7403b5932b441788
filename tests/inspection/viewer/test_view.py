"""The viewer in a real browser, on a page that answers what it asks for."""

import pytest
from playwright.sync_api import expect

from browser import visit
from looks import make_document
from regard.inspection.viewer.html_page import bundle, styles
from views import SHORT, head, readout, word


@pytest.fixture
def asked(chromium):
    """A viewer whose page can answer every change, and what it was asked for."""
    script = (
        bundle("view.js")
        + "window.asked = []; window.view = new module_view.AttentionView("
        + "document.getElementById('view'), { onChange: (changes) => asked.push(changes) });"
    )
    with visit(chromium, allow="about:") as seen:
        seen.page.set_content(f"<style>{styles()}</style><div id='view'></div>")
        seen.page.add_script_tag(content=script, type="module")
        seen.page.wait_for_function("window.view")
        seen.page.evaluate("look => view.show(look)", make_document(*SHORT))
        yield seen.page
        assert seen.errors == []


def test_a_link_is_forced_from_word_to_word(asked):
    word(asked, "rows", "sea").click()
    asked.get_by_role("button", name="Make it look elsewhere").click()
    expect(readout(asked)).to_contain_text("Choose the word of the sentence")
    word(asked, "columns", "soir").click()
    change = {"kind": "force", "target": 1, "source": 5, "layer": None, "head": None}
    assert asked.evaluate("asked") == [[change]]
    expect(asked.locator(".chip")).to_contain_text("“sea” looks only at “soir”")
    expect(asked.locator("#view")).to_have_attribute("aria-busy", "true")


def test_what_is_told_covers_no_words_or_names_of_lines(asked):
    asked.set_viewport_size({"width": 1000, "height": 300})  # the words alone are taller
    word(asked, "columns", "soir").hover()
    words, told = (asked.locator(f".stage {one}").bounding_box() for one in (".words", ".telling"))
    assert words["height"] > 150
    assert words["y"] + words["height"] <= told["y"]


def test_a_forced_word_is_counted_in_the_unchanged_translation(asked):
    first = {"kind": "silence", "part": "cross", "layer": 0, "head": 0}
    document = make_document(SHORT[0], "now the sea is calm")
    document |= {"changes": [first], "before": {"text": SHORT[1], "words": SHORT[1].split()}}
    asked.evaluate("look => view.show(look)", document)
    expect(asked.locator(".outcome ins")).to_have_text(["now"])
    expect(asked.locator(".outcome del")).to_have_text(["this", "evening"])
    expect(asked.locator(".rows ins")).to_have_text(["now"])
    word(asked, "rows", "now").click()
    expect(asked.get_by_role("button", name="Make it look elsewhere")).to_be_hidden()
    word(asked, "rows", "sea").click()
    asked.get_by_role("button", name="Make it look elsewhere").click()
    asked.keyboard.press("Enter")  # the focus has gone to the first word of the sentence
    forced = {"kind": "force", "target": 1, "source": 0, "layer": None, "head": None}
    assert asked.evaluate("asked") == [[first, forced]]


def test_the_focus_stays_on_its_word_when_another_document_comes(asked):
    word(asked, "rows", "sea").focus()
    asked.evaluate("look => view.show(look)", make_document(SHORT[0], "no sea"))
    expect(word(asked, "rows", "sea")).to_be_focused()
    asked.evaluate("look => view.show(look)", make_document(SHORT[0], "sea"))
    expect(word(asked, "rows", "sea")).to_be_focused()


def test_forcing_can_be_given_up(asked):
    word(asked, "rows", "sea").click()
    asked.get_by_role("button", name="Make it look elsewhere").click()
    asked.get_by_role("button", name="Cancel").click()
    expect(readout(asked)).to_contain_text("“sea” looked at")
    asked.get_by_role("button", name="Make it look elsewhere").click()
    asked.keyboard.press("Escape")
    word(asked, "columns", "soir").click()
    assert asked.evaluate("asked") == []
    expect(readout(asked)).to_contain_text("“soir” was looked at")


def test_changes_add_up_and_are_taken_back_one_by_one(asked):
    head(asked, 0, 1).click(modifiers=["Shift"])
    head(asked, 1, 0).click(modifiers=["Alt"])
    head(asked, 0, 1).click(modifiers=["Alt"])  # of the same head the later wish counts
    head(asked, 1, 0).click(modifiers=["Alt"])
    kinds = [[(c["kind"], c["layer"]) for c in changes] for changes in asked.evaluate("asked")]
    assert kinds == [
        [("silence", 0)],
        [("silence", 0), ("flatten", 1)],
        [("flatten", 1), ("flatten", 0)],
        [("flatten", 0)],
    ]


def test_what_goes_wrong_is_said(asked):
    head(asked, 0, 1).click(modifiers=["Shift"])
    asked.evaluate("view.say('The server is busy.')")
    expect(readout(asked)).to_have_text("The server is busy.")
    expect(asked.locator("#view")).not_to_have_attribute("aria-busy", "true")
    expect(asked.locator(".head.silence")).to_have_count(0)  # it did not come about
    expect(asked.locator(".outcome")).to_be_hidden()


def test_a_choice_can_be_made_from_outside_as_far_as_it_is_there(asked):
    asked.evaluate("view.choose({ part: 'decoder', layer: 1, head: 9, unit: 'pieces' })")
    assert asked.evaluate("view.choice") == {
        "part": "decoder",
        "layer": 1,
        "head": None,
        "unit": "pieces",
        "picture": "lines",
        "heads": [],
        "segments": [None, None],
    }
    expect(asked.get_by_label("Decoder", exact=True)).to_be_checked()
    asked.evaluate("view.choose({ part: 'no', layer: -1, head: 'x', unit: 'no', picture: null })")
    assert asked.evaluate("view.choice") == {
        "part": "cross",
        "layer": None,
        "head": None,
        "unit": "words",
        "picture": "lines",
        "heads": [],
        "segments": [None, None],
    }


def test_a_document_of_another_version_is_refused(asked):
    message = asked.evaluate("try { view.show({ version: 9 }) } catch (error) { error.message }")
    assert message == "a look document of version 9; this viewer draws 2"
