"""The viewer in a real browser, in a file that is opened from the disk with the network off."""

import json
import os
import re
from itertools import pairwise
from pathlib import Path

import pytest
from playwright.sync_api import expect

from browser import violations, visit
from looks import make_document
from regard.decoding.settings import search_settings
from regard.engines.translation_request import TranslationRequest
from regard.inspection.viewer import html_page as page_module
from regard.inspection.viewer.html_page import bundle, render_page
from regard.pipelines.open_pipeline import open_pipeline
from regard.tasks.families.viewer_document import viewer_document
from regard.tasks.translation.look import ablate_each_head
from regard.tasks.translation.pipeline import load
from views import PHONE, SHORT, head, opened, readout, word

TWENTY = (
    "the old captain looked over the quiet harbour and counted every light that trembled on the "
    "black water before dawn"
)
LIMIT = 401 * 1024
IMAGES = Path(__file__).parents[3] / "docs" / "images"


def test_a_file_of_twenty_words_and_all_heads_is_small(tmp_path):
    assert len(TWENTY.split()) == 20
    document = make_document(TWENTY, TWENTY, layers=6, heads=8, cut=4, without=True)
    (tmp_path / "look.html").write_text(render_page(document), encoding="utf-8")
    assert (tmp_path / "look.html").stat().st_size < LIMIT


def test_it_opens_offline_and_shows_both_sentences(short):
    expect(short.locator(".columns .letters")).to_have_text(SHORT[0].split())
    expect(short.locator(".rows .letters")).to_have_text(SHORT[1].split())
    expect(short.locator(".thread.resting")).to_have_count(6)
    expect(readout(short)).to_contain_text("the average of all layers and heads")
    assert short.title() == " → ".join(SHORT)


def test_pointing_at_a_word_shows_what_it_looked_at(short):
    word(short, "rows", "sea").hover()
    expect(readout(short)).to_have_text(re.compile(r"^“sea” looked at mer \d+%"))
    expect(word(short, "columns", "mer").locator(".share")).to_have_text(re.compile(r"^\d+%$"))
    expect(short.locator(".thread.resting")).to_have_count(0)
    word(short, "columns", "soir").hover()
    expect(readout(short)).to_have_text(re.compile("^“soir” was looked at by evening"))
    short.locator(".heads-card h2").hover()
    expect(short.locator(".thread.resting")).to_have_count(6)


def test_shares_over_narrow_pieces_do_not_cover_each_other(chromium, tmp_path):
    with opened(chromium, tmp_path, make_document("abcdefgh", "abcdefgh", cut=1)) as page:
        page.get_by_label("Pieces", exact=True).check()
        page.locator(".rows .word").nth(3).hover()
        shares = page.locator(".columns .share:not(:empty)")
        boxes = [share.bounding_box() for share in shares.all()]
        assert boxes
        for left, right in pairwise(boxes):
            assert left["x"] + left["width"] <= right["x"]


def test_words_that_are_copied_keep_their_spaces(short):
    short.keyboard.press("Control+a")
    copied = short.evaluate("getSelection().toString()")
    assert all(sentence in copied.split("\n") for sentence in SHORT)


def test_a_click_keeps_a_word_lit(short):
    word(short, "rows", "calm").click()
    short.locator(".heads-card h2").hover()
    expect(readout(short)).to_contain_text("“calm” looked at calme")
    expect(word(short, "rows", "calm")).to_have_attribute("aria-pressed", "true")
    short.keyboard.press("Escape")
    expect(word(short, "rows", "calm")).to_have_attribute("aria-pressed", "false")
    expect(readout(short)).to_contain_text("Each line joins two words that belong together")


def test_every_word_is_reached_by_the_keyboard(short):
    word(short, "columns", "la").focus()
    short.keyboard.press("ArrowRight")
    expect(word(short, "columns", "mer")).to_be_focused()
    expect(readout(short)).to_contain_text("“mer” was looked at by sea")
    short.keyboard.press("ArrowDown")
    expect(short.locator(".rows .word:focus")).to_have_count(1)
    short.keyboard.press("End")
    expect(word(short, "rows", "evening")).to_be_focused()
    short.keyboard.press("Home")
    short.keyboard.press("Enter")
    expect(word(short, "rows", "the")).to_have_attribute("aria-pressed", "true")
    short.keyboard.press("Tab")
    assert short.evaluate("document.activeElement.closest('.words') === null")


def test_the_tab_key_stops_once_in_each_group(short):
    groups = "fieldset, .menu, .compare, .tick, .line, .card-title, .heads-grid, svg, body"
    group = f"document.activeElement.closest('{groups}')"
    stops = []
    while not stops or stops[-1] != "file":  # the body, once round
        short.keyboard.press("Tab")
        stops.append(short.evaluate(f"{group}.getAttribute('class')"))
    assert stops == [
        "switch quiet",
        "switch",
        "menu",
        "menu",
        "switch",
        "switch",
        "compare",
        "line columns",
        "line rows",
        "card-title",
        "switch",
        "switch",
        "heads-grid",
        "card-title",
        "card-title",
        "switch",
        "tick",
        "tree-drawing",
        "file",
    ]


def test_layers_and_heads_are_chosen_by_menu_and_by_map(short):
    short.get_by_label("Layer", exact=True).select_option("1")
    expect(head(short, 1, "mean")).to_have_attribute("aria-current", "true")
    head(short, 0, 2).click()
    expect(short.get_by_label("Layer", exact=True)).to_have_value("0")
    expect(short.get_by_label("Head", exact=True)).to_have_value("2")
    head(short, 0, 2).click()
    expect(short.get_by_label("Head", exact=True)).to_have_value("all")
    expect(short.locator(".head[aria-current]")).to_have_count(0)


def test_heads_are_reached_by_the_keyboard(short):
    head(short, 0, "mean").focus()
    short.keyboard.press("ArrowDown")
    short.keyboard.press("ArrowRight")
    expect(head(short, 1, 0)).to_be_focused()
    short.keyboard.press("Enter")
    expect(short.get_by_label("Layer", exact=True)).to_have_value("1")
    expect(head(short, 1, 0)).to_be_focused()
    short.keyboard.press("s")
    expect(short.locator(".chip")).to_contain_text("layer 1, head 0: silenced")
    expect(short.get_by_role("button", name="layer 1, head 0, silenced")).to_be_focused()


def test_a_silenced_head_shows_the_translation_without_it(short):
    head(short, 0, 1).click(modifiers=["Shift"])
    expect(short.locator(".outcome ins")).to_have_text("not")
    expect(short.locator(".outcome del")).to_have_count(0)
    expect(head(short, 0, 1)).to_have_class(re.compile("silence"))
    short.get_by_label("Silence", exact=True).check()
    head(short, 1, 2).click()
    expect(short.locator(".chip")).to_have_count(1)
    expect(short.locator(".chip")).to_contain_text("layer 1, head 2: silenced")
    short.get_by_role("button", name=re.compile("^Take back")).click()
    expect(short.locator(".outcome")).to_be_hidden()
    expect(short.locator(".head.silence")).to_have_count(0)


def test_on_a_phone_what_a_silenced_head_changes_is_seen_beside_the_heads(chromium, tmp_path):
    document = make_document(*SHORT, layers=8, without=True)
    with opened(chromium, tmp_path, document, viewport=PHONE, has_touch=True) as page:
        page.get_by_label("Silence", exact=True).check()
        brief = page.locator(".outcome-brief")
        expect(brief).to_be_hidden()
        head(page, 7, 1).tap()
        expect(brief.locator("ins")).to_have_text("not")
        expect(brief).to_be_in_viewport()
        expect(page.locator(".outcome .texts")).not_to_be_in_viewport()
        head(page, 7, 1).tap()
        expect(brief).to_be_hidden()


def test_on_a_phone_the_switch_of_colours_stands_beside_a_long_name(chromium, tmp_path):
    document = {**make_document(*SHORT), "model": "a-name-longer-than-a-phone-is-wide/" * 3}
    with opened(chromium, tmp_path, document, viewport=PHONE) as page:
        tools, brand = (page.locator(part).bounding_box() for part in ("#tools", ".brand"))
        assert tools["y"] < brand["y"] + brand["height"]
        assert tools["x"] + tools["width"] <= PHONE["width"]
        assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]


def test_a_dot_marks_the_heads_that_the_translation_needs(chromium, tmp_path):
    document = make_document(*SHORT, without=True)
    for one in document["without"]:
        if (one["part"], one["layer"], one["head"]) != ("cross", 1, 2):
            one["text"] = SHORT[1]
    with opened(chromium, tmp_path, document) as page:
        expect(page.locator(".head.matters")).to_have_count(1)
        expect(head(page, 1, 2)).to_have_attribute("title", re.compile("is another one without it"))
        hint = page.locator(".heads-card .hint")
        expect(hint).to_contain_text("A dot")
        head(page, 1, 0).click(modifiers=["Shift"])
        expect(page.locator(".outcome")).to_contain_text("the same")
        page.get_by_label("Decoder", exact=True).check()
        expect(hint).not_to_contain_text("A dot")


def test_a_layer_is_silenced_with_all_its_heads(short):
    head(short, 1, "mean").click(modifiers=["Shift"])
    expect(short.locator(".head.silence")).to_have_count(4)
    expect(short.locator(".outcome ins")).to_have_text("not")


def test_what_a_file_cannot_answer_it_does_not_offer(short, chromium, tmp_path):
    assert short.locator(".heads-card .switch span").all_text_contents() == [
        "One scale",
        "Own scales",
        "Look",
        "Compare",
        "Silence",
    ]
    word(short, "rows", "sea").click()
    expect(short.get_by_role("button", name="Make it look elsewhere")).to_be_hidden()
    with opened(chromium, tmp_path, make_document(*SHORT)) as page:
        expect(page.get_by_label("Silence")).to_be_hidden()
        head(page, 0, 1).click(modifiers=["Shift"])
        expect(page.locator(".outcome")).to_be_hidden()


def test_parts_and_pieces(short):
    short.get_by_label("Decoder", exact=True).check()
    expect(short.locator(".columns .letters")).to_have_text(SHORT[1].split())
    short.get_by_label("Pieces", exact=True).check()
    expect(short.locator(".columns .letters").first).to_have_text("<s>")
    expect(short.locator(".rows .letters").last).to_have_text("</s>")
    short.get_by_label("Encoder", exact=True).check()
    expect(short.locator(".rows .letters")).to_have_text(
        ["la", "mer", "est", "calm", "e", "ce", "soir", "</s>"]
    )
    expect(short.locator(".rows .joined")).to_have_count(1)


def test_the_map_names_the_weight_that_is_pointed_at(short):
    short.get_by_label("Map", exact=True).check()
    cells = short.get_by_role("img", name=re.compile("^Map of cross attention"))
    box = cells.bounding_box()
    cells.hover(position={"x": box["width"] * 1.5 / 6, "y": box["height"] * 1.5 / 6})
    expect(readout(short)).to_have_text(re.compile(r"^“sea” looked at “mer”: \d+%\.$"))
    short.mouse.move(0, 0)
    short.get_by_label("Map", exact=True).focus()
    short.keyboard.press("Tab")
    expect(cells).to_be_focused()
    expect(readout(short)).to_contain_text("“the” looked at “la”")
    short.keyboard.press("ArrowRight")
    short.keyboard.press("ArrowDown")
    expect(readout(short)).to_contain_text("“sea” looked at “mer”")
    expect(short.locator(".words")).to_be_hidden()


def test_a_sink_is_grey_and_says_so(chromium, tmp_path):
    document = make_document(*SHORT, sink=7)
    assert {sink["column"] for sink in document["sinks"] if sink["part"] == "cross"} == {7}
    with opened(chromium, tmp_path, document) as page:
        expect(page.locator(".columns .sink")).to_have_count(0)  # one head of three is too few
        head(page, 0, 1).click()
        sink = page.locator(".columns .sink")
        expect(sink).to_have_text("</s>")
        expect(sink).to_have_attribute("title", re.compile(r"rests here whatever the word"))
        word(page, "rows", "sea").hover()
        expect(page.locator(".thread.sink")).to_have_count(1)
        expect(readout(page)).to_have_text(re.compile(r"resting on </s> \d+%"))


def test_a_full_stop_that_is_a_sink_stands_apart_from_its_word(chromium, tmp_path):
    document = make_document("il dort.", "he is asleep here.", cut=3, sink=2)
    with opened(chromium, tmp_path, document) as page:
        head(page, 0, 1).click()
        expect(page.locator(".columns .letters")).to_have_text(["il", "dort.", "t."])
        expect(page.locator(".columns .sink .letters")).to_have_text(["t."])


def test_a_word_that_is_a_sink_is_named_once(chromium, tmp_path):
    with opened(chromium, tmp_path, make_document(*SHORT, sink=2)) as page:
        head(page, 0, 1).click()
        expect(page.locator(".columns .letters")).to_have_text(SHORT[0].split())
        expect(page.locator(".columns .sink .letters")).to_have_text(["est"])


CONTRASTS = """() => {
  const channels = (colour) => {
    const numbers = colour.match(/[\\d.]+/g).map(Number);
    const scale = colour.startsWith("color(") ? 1 : 255;
    return [...numbers.slice(0, 3).map((one) => one / scale), numbers[3] ?? 1];
  };
  const light = (colour) => {
    const linear = (one) => (one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4);
    const [red, green, blue] = channels(colour).map(linear);
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const ground = (element) => {
    const { backgroundColor } = getComputedStyle(element);
    return channels(backgroundColor)[3] > 0 ? backgroundColor : ground(element.parentElement);
  };
  const speaks = (element) =>
    [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
  const seen = [...document.querySelectorAll("main *, header *, footer *")].filter(
    (element) => speaks(element) && element.checkVisibility() && !element.closest("svg, .unseen"),
  );
  return seen.map((element) => {
    const { color, fontSize } = getComputedStyle(element);
    const behind = element.matches(".share") ? element.closest(".line") : element; // above its word
    const [low, high] = [light(color), light(ground(behind))].sort((a, b) => a - b);
    return [element.textContent, (high + 0.05) / (low + 0.05), parseFloat(fontSize)];
  });
}"""


def test_lines_of_other_rows_go_behind_the_words(chromium, tmp_path):
    text = " ".join([TWENTY] * 2)
    ground = "(word) => getComputedStyle(word).backgroundColor"
    with opened(chromium, tmp_path, make_document(text, text)) as page:
        first, last = (page.locator(".rows .word").nth(place) for place in (0, -1))
        assert last.bounding_box()["y"] > first.bounding_box()["y"] + 20  # several rows
        card = page.locator(".stage").evaluate(ground)
        assert first.evaluate(ground) == card == "rgb(255, 255, 255)"


def test_on_paper_the_same_picture_stands_on_white_without_the_controls(chromium, tmp_path):
    with opened(chromium, tmp_path, make_document(*SHORT), color_scheme="dark") as page:
        on_screen = page.locator(".words").bounding_box()["width"]
        page.emulate_media(media="print")
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        expect(page.locator(".toolbar, .card-tools, .switch").filter(visible=True)).to_have_count(0)
        assert page.locator(".words").evaluate("(one) => one.clientWidth") == int(on_screen)
        assert page.locator(".words").bounding_box()["width"] == pytest.approx(600, abs=1)
        ground = page.locator(".stage").evaluate("(card) => getComputedStyle(card).backgroundColor")
        assert ground == "rgb(255, 255, 255)"
        page.evaluate("dispatchEvent(new Event('afterprint'))")
        assert page.evaluate("document.documentElement.dataset.theme") is None
        page.emulate_media(media="screen")
        expect(page.locator(".toolbar")).to_be_visible()


def test_words_that_go_right_to_left_turn_no_number_round(chromium, tmp_path):
    document = make_document("البحر هادئ هذا المساء", "הים רגוע הערב")
    with opened(chromium, tmp_path, document, viewport=PHONE) as page:
        word(page, "rows", "רגוע").click()
        named = re.compile("^“\u2068רגוע\u2069” looked at \u2068[^ ]+\u2069 \\d+%, ")
        expect(readout(page)).to_have_text(named)
        share = page.locator(".columns .share:not(:empty)").first
        assert share.evaluate("(one) => getComputedStyle(one).direction") == "ltr"
        column = page.locator(".columns .line-words").bounding_box()
        for words in page.locator(".columns .word").all():  # at the lines, whatever the script
            box = words.bounding_box()
            assert box["x"] + box["width"] == pytest.approx(column["x"] + column["width"], abs=1)


def test_a_long_sentence_fades_out_below_where_it_goes_on(chromium, tmp_path, short):
    mask = "(list) => getComputedStyle(list).maskImage"
    assert short.locator(".rows .line-words").evaluate(mask) == "none"
    text = " ".join([TWENTY] * 6)
    with opened(chromium, tmp_path, make_document(text, text, heads=1)) as page:
        frame = page.locator(".rows .line-words")
        expect(frame).to_have_attribute("data-more", "bottom")
        assert "gradient" in frame.evaluate(mask)
        frame.evaluate("(list) => { list.scrollTop = 1e6 }")
        expect(frame).to_have_attribute("data-more", "top")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_letters_stand_out_from_what_is_behind_them(chromium, tmp_path, scheme):
    """WCAG 2.2, 1.4.3: a contrast of 4.5, or of 3 for letters of 24 pixels and more."""
    document = make_document(*SHORT, sink=7, others=["a sea"], without=True)
    options = {"color_scheme": scheme, "reduced_motion": "reduce", "viewport": PHONE}
    with opened(chromium, tmp_path, document, **options) as page:  # letters are small on a phone
        head(page, 0, 1).click(modifiers=["Shift"])
        checked = 0
        for number in (0, 1, 2, "mean"):
            head(page, 0, number).click()
            for spoken in SHORT[1].split():
                word(page, "rows", spoken).hover()
                for text, contrast, size in page.evaluate(CONTRASTS):
                    checked += 1
                    assert contrast >= (3 if size >= 24 else 4.5), (text, contrast, size)
        assert checked > 1000


def test_other_translations_differ_where_they_are_marked(short):
    rows = short.locator(".candidates li")
    expect(rows).to_have_count(2)
    expect(rows.nth(1).locator("ins")).to_have_text(["a"])
    expect(rows.nth(1).locator("del")).to_have_text(["the", "this", "evening"])
    expect(rows.nth(1).locator(".score")).to_have_text("−1.50")


def test_a_chosen_head_is_seen_without_pointing(short):
    threads = "[...document.querySelectorAll('.thread')].map((one) => one.outerHTML)"
    seen = [short.evaluate(threads)]
    for layer, number, told in (
        (0, "mean", "Layer 0, the average of its heads:"),
        (0, 0, "Layer 0, head 0:"),
        (1, 0, "Layer 1, head 0:"),
    ):
        head(short, layer, number).click()
        expect(readout(short)).to_contain_text(f"{told} the thicker a line")
        seen.append(short.evaluate(threads))
    assert len({str(one) for one in seen}) == 4
    head(short, 1, 0).click()
    assert short.evaluate(threads) == seen[0]


def test_on_a_phone_rows_of_a_wide_map_keep_their_names(chromium, tmp_path):
    text = " ".join([TWENTY] * 2)
    with opened(chromium, tmp_path, make_document(text, text), viewport=PHONE) as page:
        page.get_by_label("Map", exact=True).check()
        frame = page.locator(".map").bounding_box()
        for along in (0, 99999):
            page.locator(".map").evaluate("(map, along) => { map.scrollLeft = along }", along)
            name = page.locator(".map-rows .label").nth(2).bounding_box()
            assert name["width"] > 30
            assert name["x"] >= frame["x"]
            seen = "([x, y]) => document.elementFromPoint(x, y).textContent"
            middle = [name["x"] + name["width"] / 2, name["y"] + name["height"] / 2]
            assert page.evaluate(seen, middle) == "captain"
        assert (
            page.locator(".map-columns .label").first.evaluate(
                "(one) => parseFloat(getComputedStyle(one).fontSize)"
            )
            > 9
        )  # pixels, to be read


def test_on_a_phone_nothing_covers_the_words(chromium, tmp_path):
    document = make_document(" ".join([TWENTY] * 2), " ".join([TWENTY] * 2))
    covered = """() => [...document.querySelectorAll(".word")].filter((word) => {
      const { x, y, width, height } = word.getBoundingClientRect();
      const [left, top] = [x + width / 2, y + height / 2];
      const inView = top > 0 && top < innerHeight;
      return inView && !word.contains(document.elementFromPoint(left, top));
    }).length"""
    with opened(chromium, tmp_path, document, viewport=PHONE, has_touch=True) as page:
        page.locator(".rows .word").nth(3).tap()
        assert page.evaluate("document.documentElement.scrollHeight > 2 * innerHeight")
        assert page.evaluate(covered) == 0


@pytest.mark.parametrize(
    "options",
    [{"color_scheme": "light"}, {"color_scheme": "dark", "viewport": PHONE}],
    ids=["light desk", "dark phone"],
)
def test_axe_finds_nothing(chromium, tmp_path, options):
    document = make_document(*SHORT, others=["a sea"], without=True)
    (tmp_path / "look.html").write_text(render_page(document), encoding="utf-8")
    with visit(chromium, allow="file:", bypass_csp=True, **options) as seen:
        seen.page.goto((tmp_path / "look.html").as_uri())
        head(seen.page, 0, 1).click(modifiers=["Shift"])
        word(seen.page, "rows", "sea").click()
        assert violations(seen.page) == []


def test_light_and_dark_follow_the_system_until_one_is_chosen(chromium, tmp_path):
    paper = "getComputedStyle(document.body).backgroundColor"
    painted = "document.querySelector('.head canvas').toDataURL()"
    with opened(chromium, tmp_path, make_document(*SHORT), color_scheme="dark") as page:
        assert page.evaluate(paper) == "rgb(18, 20, 24)"
        before = page.evaluate(painted)
        page.get_by_label("Light", exact=True).check()
        assert page.evaluate(paper) == "rgb(250, 249, 246)"
        page.wait_for_function(f"before => {painted} !== before", arg=before)


def test_arabic_runs_from_right_to_left(chromium, tmp_path):
    document = make_document("the library opens at nine", "تفتح المكتبة في الساعة التاسعة")
    with opened(chromium, tmp_path, document) as page:
        first, second = (page.locator(".rows .word").nth(n) for n in (0, 1))
        assert first.bounding_box()["x"] > second.bounding_box()["x"]
        first.focus()
        page.keyboard.press("ArrowLeft")
        expect(second).to_be_focused()


@pytest.mark.parametrize(
    ("source", "target"),
    [
        SHORT,
        (" ".join([TWENTY] * 5), " ".join([TWENTY] * 5)),
        ("多瑙河轮船公司冬季不运营。", "Die Donaudampfschifffahrtsgesellschaft " + "x" * 60),
    ],
)
def test_nothing_is_wider_than_a_phone(chromium, tmp_path, source, target):
    document = make_document(source, target, others=[target])
    with opened(chromium, tmp_path, document, viewport=PHONE, has_touch=True) as page:
        expect(page.locator(".words")).to_have_attribute("data-layout", "columns")
        page.locator(".rows .word").first.tap()
        expect(readout(page)).to_contain_text("looked at")
        page.get_by_label("Map", exact=True).check()
        page.locator(".cells").tap()
        expect(readout(page)).to_contain_text("” looked at “")
        assert page.evaluate("document.documentElement.scrollWidth") == 360


def test_all_that_can_be_pressed_has_a_name(short):
    pressed = r"- (button|radio|combobox|checkbox|treeitem|group|tree|img)\b(.*)"
    for picture, role in (("Lines", "group"), ("Map", "img")):
        short.get_by_label(picture, exact=True).check()
        found = re.findall(pressed, short.locator("body").aria_snapshot())
        assert [kind for kind, name in found if not name.startswith(' "')] == []
        assert role in {kind for kind, _ in found}
    expect(readout(short)).to_have_attribute("role", "status")


def test_words_cannot_become_a_page(chromium, tmp_path):
    evil = "</script><img/src=x/onerror=alert(1)> <!--<script> $style &amp;"
    with opened(chromium, tmp_path, make_document(evil, evil, cut=99)) as page:
        expect(page.locator(".rows .letters")).to_have_text(evil.split())
        expect(page.locator("img")).to_have_count(0)


def test_the_policy_lets_no_other_script_in(chromium, tmp_path):
    path = tmp_path / "look.html"
    path.write_text(render_page(make_document(*SHORT)), encoding="utf-8")
    with visit(chromium, allow=path.as_uri()) as seen:
        seen.page.goto(path.as_uri())
        seen.page.evaluate(
            "() => { const script = document.createElement('script');"
            "script.textContent = 'window.intruder = 1'; document.body.append(script); }"
        )
        assert seen.page.evaluate("window.intruder") is None
        assert any("Content Security Policy" in error for error in seen.errors)


def test_a_model_that_does_not_attend_still_has_its_search(chromium, tmp_path):
    document = {**make_document(*SHORT), "parts": {}, "alignment": None, "sinks": []}
    with opened(chromium, tmp_path, document) as page:
        expect(readout(page)).to_have_text(re.compile("^This model does not attend"))
        expect(page.get_by_role("tree")).to_be_visible()
        expect(page.locator(".heads-card")).to_be_hidden()


def test_notes_are_shown(chromium, tmp_path, short):
    expect(short.get_by_role("list", name="Notes")).to_be_hidden()
    document = make_document(*SHORT) | {"notes": ["1 of 7 tokens is unknown", "<b>"]}
    with opened(chromium, tmp_path, document) as page:
        expect(page.get_by_role("list", name="Notes").get_by_role("listitem")).to_have_text(
            document["notes"]
        )


def test_a_blank_answer_draws_its_end(chromium, tmp_path):
    with opened(chromium, tmp_path, make_document("oui", "")) as page:
        expect(page.locator(".rows .letters")).to_have_text(["</s>"])


def test_the_document_in_the_page_is_the_document(tmp_path):
    document = make_document("1 < 2 & 3", "$look </script>")
    [held] = re.findall(r'id="look">(.*?)</script>', render_page(document), re.S)
    assert json.loads(held) == json.loads(json.dumps(document))


@pytest.mark.parametrize(
    ("module", "message"),
    [
        ('import { a } from "./b.js";\n', r"modules import each other: a\.js -> b\.js -> a\.js"),
        ('import a from "./c.js";\n', r"a\.js: cannot be written into a page: import a from"),
        ("export default 1;\n", r"a\.js: cannot be written into a page: export default 1"),
        ('const c = await import("./c.js");\n', r"a\.js: cannot be written into a page: const c"),
    ],
)
def test_a_module_that_cannot_be_written_into_a_page(tmp_path, monkeypatch, module, message):
    monkeypatch.setattr(page_module, "ASSETS", tmp_path)
    (tmp_path / "a.js").write_text(module, encoding="utf-8")
    (tmp_path / "b.js").write_text('import { b } from "./a.js";\n', encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        bundle("a.js")


def test_a_module_is_written_once_and_behind_what_it_imports(tmp_path, monkeypatch):
    monkeypatch.setattr(page_module, "ASSETS", tmp_path)
    (tmp_path / "a.js").write_text(
        'import { b } from "./b.js";\nimport { c } from "./c.js";\nexport const a = b + c;\n',
        encoding="utf-8",
    )
    (tmp_path / "b.js").write_text(
        'import { c } from "./c.js";\nexport const b = c;\n', encoding="utf-8"
    )
    (tmp_path / "c.js").write_text("export const c = 1;\n", encoding="utf-8")
    assert re.findall(r"const (module_\w+) =", bundle("a.js")) == [
        "module_c",
        "module_b",
        "module_a",
    ]


@pytest.mark.skipif(
    "REGARD_SCREENSHOTS" not in os.environ, reason="asked for by REGARD_SCREENSHOTS"
)
def test_the_picture_of_the_docs(chromium, tmp_path):
    translator = load(os.environ["REGARD_SCREENSHOTS"], device="cpu")
    settings = search_settings(translator.settings, beam=3, n_best=3)
    french = "Jane ne visite jamais la vieille cathédrale en septembre."
    answer = translator.look(french, settings, tree=True)
    without = ablate_each_head(translator, answer, TranslationRequest(settings))
    document = viewer_document(answer, model="travel", without=without)
    desk = {"width": 1180, "height": 800}
    with opened(chromium, tmp_path, document, viewport=desk) as page:
        word(page, "rows", "the").hover()
        page.screenshot(path=IMAGES / "viewer.png", full_page=True)


@pytest.mark.skipif(
    "REGARD_TEXT_SCREENSHOTS" not in os.environ, reason="asked for by REGARD_TEXT_SCREENSHOTS"
)
def test_the_picture_of_a_text_of_the_docs(chromium, tmp_path):
    run = open_pipeline(os.environ["REGARD_TEXT_SCREENSHOTS"], device="cpu")
    path = tmp_path / "look.html"
    path.write_text(run.look("ROMEO: My love, I will not").page("shakespeare"), encoding="utf-8")
    desk = {"width": 1000, "height": 700}
    with visit(chromium, allow=path.as_uri(), viewport=desk) as seen:
        seen.page.goto(path.as_uri())
        seen.page.get_by_label("Pieces", exact=True).check(force=True)
        seen.page.get_by_label("Layer").first.select_option("0")
        seen.page.get_by_label("Head", exact=True).first.select_option("3")
        seen.page.locator(".rows .word").nth(-2).hover()
        seen.page.screenshot(path=IMAGES / "looking" / "text.png", full_page=True)
