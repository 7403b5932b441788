"""The page of a real server, driven in a real browser.

With REGARD_SCREENSHOTS set to the folder of a run, the pictures of docs/page.md are taken anew.
"""

import os
import re
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from playwright.sync_api import expect

import regard
from browser import violations, visit
from pages import (
    FRENCH,
    PHONE,
    SEVERAL,
    answer_once,
    bodies,
    fragment,
    looked,
    open_page,
    readout,
    translated,
    translation,
    write,
)

IMAGES = Path(__file__).parents[3] / "docs" / "images"


def first_word(page):
    """The first word of the sentence that is looked at."""
    return page.locator("#view .columns .word").first


def test_translation_streams_as_one_types(page, server):
    page.evaluate(
        """() => {
          window.shown = [];
          const pane = document.getElementById("translation");
          const note = () => window.shown.push(pane.textContent);
          new MutationObserver(note).observe(pane, {childList: true, characterData: true});
        }"""
    )
    with page.expect_response("**/translate/stream") as answered:
        page.get_by_label("Text to translate").press_sequentially(FRENCH)
    assert answered.value.headers["content-type"].startswith("text/event-stream")
    looked(page)
    expect(translation(page)).to_have_text(translated(server))
    assert len(page.evaluate("window.shown")) > 1


def test_text_entered_before_the_page_is_ready_is_kept(rough, server):
    held = []
    rough.route("**/languages", lambda route: held.append(route))
    with rough.expect_request("**/languages"):
        rough.goto(server)
    rough.get_by_label("Text to translate").fill(FRENCH)
    held[0].continue_()
    looked(rough)
    expect(rough.get_by_label("Text to translate")).to_have_value(FRENCH)


def test_only_the_last_of_many_key_strokes_sends_a_request(page):
    sent = bodies(page, "/translate/stream")
    page.get_by_label("Text to translate").press_sequentially("Elle part.", delay=5)
    looked(page)
    assert [body["q"] for body in sent] == ["Elle part."]


def test_the_next_text_aborts_the_former_request(page):
    page.route("**/translate/stream", lambda route: None, times=1)  # never answered
    with page.expect_request("**/translate/stream"):
        page.get_by_label("Text to translate").fill("Il dort.")
    with page.expect_event("requestfailed") as failed:
        write(page)
    assert failed.value.post_data_json["q"] == "Il dort."


def test_pointing_at_a_word_shows_what_it_looked_at(page):
    write(page)
    word = page.locator("#view .rows .word").first
    word.hover()
    expect(readout(page)).to_contain_text(f"“{word.inner_text()}” looked at")
    assert page.locator("#view .thread:not(.resting)").count() > 0


def test_another_head_changes_the_picture(page):
    write(page)
    page.get_by_role("radio", name="Map").check()
    picture = page.locator("#view .cells")
    average = picture.screenshot()
    page.get_by_role("button", name="layer 1, head 2").click()
    expect(page.get_by_role("combobox", name="Layer")).to_have_value("1")
    assert picture.screenshot() != average
    assert fragment(page)["look"] == ["cross.1.2.words.map"]


def test_silencing_a_head_shows_the_difference(page, server):
    write(page)
    sent = bodies(page, "/attention")
    page.get_by_role("button", name="layer 0, head 1").click(modifiers=["Shift"])
    expect(page.locator("#view .chip")).to_have_text(re.compile("layer 0, head 1: silenced"))
    expect(page.locator("#view .texts dd").first).to_have_text(translated(server))
    change = {"kind": "silence", "part": "cross", "layer": 0, "head": 1}
    assert [body["changes"] for body in sent] == [[change]]
    assert fragment(page)["change"] == ["silence.cross.0.1"]
    page.get_by_role("button", name=re.compile("Take back")).click()
    expect(page.locator("#view .chip")).to_have_count(0)
    assert "change" not in fragment(page)


def test_a_link_can_be_forced(page):
    write(page)
    sent = bodies(page, "/attention")
    page.locator("#view .rows .word").nth(1).click()
    page.get_by_role("button", name="Make it look elsewhere").click()
    page.locator("#view .columns .word").nth(2).click()
    expect(page.locator("#view .chip")).to_have_text(re.compile("looks only at"))
    looked(page)
    change = {"kind": "force", "target": 1, "source": 2, "layer": None, "head": None}
    assert [body["changes"] for body in sent] == [[change]]
    page.get_by_label("Text to translate").press_sequentially(" Elle part.")
    expect(page.locator("#view .chip")).to_have_count(0)


def test_n_best_and_tree_are_shown(page, server):
    write(page)
    candidates = page.locator("#view .candidates li")
    expect(candidates).to_have_count(4)
    expect(candidates.first).to_contain_text(translated(server))
    assert page.locator("#view .tree .node.won").count() > 1


def test_a_link_restores_the_state(page, server):
    write(page, SEVERAL)
    translation(page).locator(".sentence").nth(2).click()
    expect(first_word(page)).to_have_text("Jane")
    page.get_by_role("radio", name="Encoder").check()
    page.get_by_role("button", name="layer 2, head 3").click()
    page.get_by_role("button", name="layer 2, head 3").click(modifiers=["Shift"])
    looked(page)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy link").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    link = page.evaluate("navigator.clipboard.readText()")
    assert link.startswith(server)
    page.goto("about:blank")
    with page.expect_request("**/attention") as asked:
        page.goto(link)
    assert "Jane" not in asked.value.url
    looked(page)
    expect(page.get_by_label("Text to translate")).to_have_value(SEVERAL)
    expect(page.get_by_text("sentence 3 of 4")).to_be_visible()
    expect(page.get_by_role("radio", name="Encoder")).to_be_checked()
    expect(page.get_by_role("combobox", name="Head")).to_have_value("3")
    expect(page.locator("#view .chip")).to_have_count(1)


def test_a_state_survives_its_fragment(page):
    state = {
        "text": "a + b & c=d\nЯ 日本 🙂 %41",
        "source": "fr",
        "target": "en",
        "sentence": 1,
        "choice": {
            "part": "decoder", "layer": None, "head": 2, "unit": "pieces", "picture": "map",
            "heads": [[0, 3], [1, 12]],
        },
        "changes": [
            {"kind": "silence", "part": "cross", "layer": 0, "head": None},
            {"kind": "flatten", "part": "encoder", "layer": 1, "head": 3},
            {"kind": "force", "target": 2, "source": 4, "layer": None, "head": None},
        ],
    }  # fmt: skip
    there_and_back = """async (state) => {
      const {toFragment, fromFragment} = await import('/static/page/state.js');
      return fromFragment('#' + toFragment(state));
    }"""
    assert page.evaluate(there_and_back, state) == state


def test_a_text_that_is_too_long_for_a_link_is_not_put_into_one(page):
    write(page, "\n".join([FRENCH] * 250))
    assert urlsplit(page.url).fragment == ""
    expect(page.get_by_role("button", name="Copy link")).to_be_disabled()


def test_the_sentence_with_the_caret_is_looked_at(page):
    field = page.get_by_label("Text to translate")
    field.fill(SEVERAL)
    looked(page)
    expect(page.get_by_text("sentence 4 of 4")).to_be_visible()
    expect(first_word(page)).to_have_text("Nous")
    field.press("Control+Home")
    expect(first_word(page)).to_have_text("Elle")
    expect(page.get_by_text("sentence 1 of 4")).to_be_visible()
    field.press("End")
    expect(first_word(page)).to_have_text("Il")
    assert len(translation(page).inner_text().split("\n")) == 3


def test_sentences_are_stepped_through_with_the_keyboard(page):
    write(page, SEVERAL)
    before = page.get_by_role("button", name="The sentence before")
    after = page.get_by_role("button", name="The sentence after")
    expect(before).to_be_disabled()
    sent = bodies(page, "/attention")
    after.focus()
    for word in ("Il", "Jane", "Nous"):
        page.keyboard.press("Enter")
        expect(first_word(page)).to_have_text(word)
    expect(after).to_be_disabled()
    assert [body["sentence"] for body in sent] == [1, 2, 3]
    assert {body["q"] for body in sent} == {SEVERAL}
    before.press("Enter")
    expect(page.get_by_text("sentence 3 of 4")).to_be_visible()


def test_attention_is_of_the_shown_translation(page):
    write(page, SEVERAL)
    shown = translation(page).locator(".sentence")
    expect(shown).to_have_count(4)
    for number, word in enumerate(["Elle", "Il", "Jane", "Nous"]):
        shown.nth(number).click()
        expect(first_word(page)).to_have_text(word)
        looked(page)
        text = shown.nth(number).inner_text()
        expect(translation(page).locator("[aria-current]")).to_have_text(text)
        expect(page.locator("#view .candidates li").first).to_contain_text(text)


def test_a_change_is_of_the_chosen_sentence(page):
    write(page, SEVERAL)
    translation(page).locator(".sentence").nth(2).click()
    expect(first_word(page)).to_have_text("Jane")
    looked(page)
    sent = bodies(page, "/attention")
    text = translation(page).locator(".sentence").nth(2).inner_text()
    page.get_by_role("button", name="layer 0, head 1").click(modifiers=["Shift"])
    expect(page.locator("#view .texts dd").first).to_have_text(text)
    assert [(body["sentence"], len(body["changes"])) for body in sent] == [(2, 1)]
    assert fragment(page)["sentence"] == ["2"]


@pytest.mark.parametrize("text", [FRENCH, SEVERAL], ids=["one sentence", "several"])
def test_changes_by_interventions_are_marked_in_the_translation(rough, server, text):
    def add_a_word(route):
        look = route.fetch().json()
        look["target"]["text"] = look["before"]["text"] + " indeed"
        route.fulfill(json=look)

    open_page(rough, server)
    write(rough, text)
    plain = translation(rough).inner_text()
    rough.route("**/attention", add_a_word, times=1)
    rough.get_by_role("button", name="layer 0, head 1").click(modifiers=["Shift"])
    expect(translation(rough).locator("ins")).to_have_text(["indeed"])
    expect(translation(rough).locator("del")).to_have_count(0)
    expect(rough.get_by_text("changed by what was done below")).to_be_visible()
    if text == SEVERAL:
        changed = translation(rough).locator(".sentence[aria-current]")
        expect(changed).to_contain_text("indeed")
        expect(translation(rough).locator(".sentence")).to_have_count(4)
    rough.get_by_role("button", name=re.compile("^Take back")).click()
    expect(translation(rough)).to_have_text(plain)
    expect(rough.get_by_text("changed by what was done below")).to_be_hidden()


def test_one_sentence_needs_no_picker(page):
    write(page)
    expect(page.get_by_role("group", name="Sentence looked at")).to_be_hidden()
    expect(translation(page).locator(".sentence")).to_have_count(0)


def test_an_example_fills_the_empty_box_by_key(page):
    examples = page.get_by_role("group", name="For example").get_by_role("button")
    expect(examples).to_have_count(2)
    sentence = examples.first.inner_text()
    page.get_by_label("Text to translate").press("Tab")
    expect(examples.first).to_be_focused()
    page.keyboard.press("Enter")
    looked(page)
    expect(page.get_by_label("Text to translate")).to_have_value(sentence)
    expect(page.get_by_label("Text to translate")).to_be_focused()
    expect(examples).to_have_count(0)  # hidden
    page.get_by_role("button", name="Clear the text").click()
    expect(examples).to_have_count(2)


def test_examples_are_of_the_chosen_languages(page):
    page.get_by_label("Translate from").select_option("en")
    expect(page.get_by_role("group", name="For example")).to_be_hidden()


def test_the_panes_scroll_together(page):
    write(page, "\n".join([FRENCH] * 60))
    field, answer = page.get_by_label("Text to translate"), translation(page)
    field.hover()
    page.mouse.wheel(0, 500)
    expect(answer).not_to_have_js_property("scrollTop", 0)
    answer.hover()
    page.mouse.wheel(0, -2000)
    expect(field).to_have_js_property("scrollTop", 0)


def test_requested_alternatives_keep_to_the_limit_of_the_server(rough, server):
    settings = httpx.get(f"{server}frontend/settings").json()
    answer_once(rough, "/frontend/settings", json={**settings, "alternativesLimit": 1})
    open_page(rough, server)
    sent = [*map(partial(bodies, rough), ("/translate/stream", "/attention"))]
    write(rough)
    assert [[body["alternatives"] for body in some] for some in sent] == [[1], [1]]


def test_a_closed_panel_requests_no_attention_and_stays_closed(page):
    page.get_by_role("button", name="What it looked at").click()
    sent = bodies(page, "/attention")
    page.get_by_label("Text to translate").fill(FRENCH)
    expect(translation(page)).not_to_be_empty()
    page.reload()
    expect(translation(page)).not_to_be_empty()
    expect(translation(page)).to_have_attribute("aria-busy", "false")
    assert sent == []
    page.get_by_role("button", name="What it looked at").click()
    looked(page)


def test_everything_can_be_done_with_the_keyboard(page):
    def tab_to(locator):
        for _ in range(40):
            page.keyboard.press("Tab")
            if locator.evaluate("(element) => element === document.activeElement"):
                return
        raise AssertionError(f"Tab never comes to {locator}")

    expect(page.get_by_label("Text to translate")).to_be_focused()
    page.keyboard.type(FRENCH)
    looked(page)
    tab_to(page.locator("#view .columns .word").first)
    expect(readout(page)).to_contain_text("was looked at by")
    page.keyboard.press("ArrowDown")
    expect(readout(page)).to_contain_text("” looked at")
    page.keyboard.press("Enter")
    tab_to(page.get_by_role("button", name="Make it look elsewhere"))
    page.keyboard.press("Enter")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    expect(page.locator("#view .chip")).to_have_count(1)
    looked(page)
    tab_to(page.locator("#view .head[tabindex='0']"))
    page.keyboard.press("s")
    expect(page.locator("#view .chip")).to_have_count(2)


def test_every_control_has_a_name(page):
    write(page)
    nameless = page.evaluate(
        """() => [...document.querySelectorAll("button, select, input, textarea, a[href]")]
          .filter((e) => e.checkVisibility())
          .filter((e) => !e.ariaLabel && !e.labels?.length && !e.textContent.trim())
          .map((e) => e.outerHTML)"""
    )
    assert nameless == []


@pytest.mark.parametrize(
    "options",
    [{"color_scheme": "dark"}, {"color_scheme": "light", "viewport": PHONE}],
    ids=["dark desk", "light phone"],
)
def test_axe_finds_nothing(chromium, server, options):
    with visit(chromium, allow=server, bypass_csp=True, **options) as seen:
        open_page(seen.page, server)
        assert violations(seen.page) == []
        write(seen.page, SEVERAL)
        assert violations(seen.page) == []


def test_a_phone_needs_no_sideways_scrolling(chromium, server):
    options = {"viewport": PHONE, "has_touch": True, "is_mobile": True}
    with visit(chromium, allow=server, **options) as seen:
        page = seen.page
        open_page(page, server)
        write(page, f"{FRENCH} {'Donaudampfschifffahrtsgesellschaft' * 3}")
        page.locator("#view .rows .word").first.tap()
        expect(readout(page)).to_contain_text("looked at")
        assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
        assert seen.errors == []


def test_the_page_leaves_the_colours_of_the_theme_alone():
    sources = Path(regard.__file__).parent
    [page_sheet] = (sources / "server/page").glob("*.css")
    view_sheets = sorted((sources / "inspection/viewer").glob("*.css"))
    assert len(view_sheets) > 1
    own, theirs = (
        {name for sheet in sheets for name in re.findall(r"(--[\w-]+):", sheet.read_text())}
        for sheets in ([page_sheet], view_sheets)
    )
    assert own
    assert own & theirs == set()


def test_light_and_dark_are_remembered(page):
    page.get_by_role("radio", name="Dark").check()
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.reload()
    expect(page.get_by_role("radio", name="Dark")).to_be_checked()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == dark
    page.get_by_role("radio", name="Light").check()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != dark


def test_a_translation_can_be_copied_without_a_secure_context(page):
    write(page)
    page.evaluate("Object.defineProperty(navigator, 'clipboard', {value: undefined})")
    page.get_by_role("button", name="Copy", exact=True).click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    page.get_by_label("Text to translate").fill("")
    page.get_by_label("Text to translate").press("Control+v")
    expect(page.get_by_label("Text to translate")).not_to_be_empty()


def test_languages_without_a_way_back_cannot_be_swapped(rough, server):
    french, english = httpx.get(f"{server}languages").json()
    answer_once(rough, "/languages", json=[french, {**english, "targets": []}])
    open_page(rough, server)
    expect(rough.get_by_role("button", name="Swap languages")).to_be_disabled()
    expect(rough.get_by_label("Translate from")).to_have_value("fr")
    expect(rough.get_by_label("Translate into")).to_have_value("en")


def test_two_directions_detect_and_swap(page):
    page.get_by_label("Translate from").select_option("auto")
    write(page)
    source = page.get_by_label("Translate from")
    expect(source.locator("option").first).to_have_text("French (detected)")
    english = translation(page).inner_text()
    page.get_by_role("button", name="Swap languages").click()
    expect(source).to_have_value("en")
    expect(page.get_by_label("Translate into")).to_have_value("fr")
    expect(page.get_by_label("Text to translate")).to_have_value(english)
    looked(page)


SCREENS = {
    "light": {"viewport": {"width": 1280, "height": 1352}, "color_scheme": "light"},
    "dark": {"viewport": {"width": 1280, "height": 1560}, "color_scheme": "dark"},
    "phone": {"viewport": {"width": 360, "height": 1090}, "device_scale_factor": 2},
}


@pytest.mark.skipif("REGARD_SCREENSHOTS" not in os.environ, reason="no REGARD_SCREENSHOTS")
def test_screenshots_of_the_docs(chromium, serve):
    with serve(f"fr-en={os.environ['REGARD_SCREENSHOTS']}") as server:
        for name, options in SCREENS.items():
            with visit(chromium, allow=server, reduced_motion="reduce", **options) as seen:
                page = seen.page
                open_page(page, server)
                write(page, "La voyageuse qui l'a visité en juillet le rencontre souvent.")
                if name == "dark":
                    page.get_by_role("button", name="layer 0, all heads").click(modifiers=["Shift"])
                    expect(page.locator("#view .texts :is(ins, del)").first).to_be_visible()
                    looked(page)
                page.evaluate("scrollTo(0, 0)")
                # "often", and in the dark "visited": by number, as models differ
                page.locator("#view .rows .word").nth(3 if name == "dark" else 7).hover()
                page.screenshot(path=IMAGES / f"page-{name}.png")
                assert seen.errors == []
