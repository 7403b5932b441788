"""The page of a picture in a real browser, opened from the disk with the network off."""

import base64
import io
import re

import pytest
import torch
from PIL import Image
from playwright.sync_api import expect

from browser import violations, visit
from regard.inspection.viewer.html_page import render_picture_page
from regard.inspection.viewer.layer_maps import encode_layer
from views import PHONE

WORDS = ["a", "red", "square", "<b>"]
LAYERS, HEADS, ROWS, COLUMNS = 2, 1, 3, 4


def document(words=WORDS):
    """Word n looks at region n in layer 0, and at the last region in layer 1."""
    weights = torch.zeros(LAYERS, HEADS, len(words), ROWS * COLUMNS)
    for number in range(len(words)):
        weights[0, 0, number, number] = 1
        weights[1, 0, number, -1] = 1
    content = io.BytesIO()
    Image.new("RGB", (64, 64), (200, 40, 40)).save(content, "JPEG")
    picture = base64.b64encode(content.getvalue()).decode()
    return {
        "version": 2,
        "model": "tiny",
        "name": "photo.jpg",
        "text": " ".join(words),
        "picture": f"data:image/jpeg;base64,{picture}",
        "words": words,
        "grid": [ROWS, COLUMNS],
        "layers": [encode_layer(one, None, (ROWS, COLUMNS)) for one in weights],
        "candidates": [{"text": " ".join(words), "score": -1.0}, {"text": "two", "score": -2.0}],
        "notes": ["rotated according to its EXIF data"],
    }


@pytest.fixture
def page(chromium, tmp_path):
    path = tmp_path / "look.html"
    path.write_text(render_picture_page(document()), encoding="utf-8")
    with visit(chromium, allow=path.as_uri(), bypass_csp=False) as seen:
        seen.page.context.set_offline(True)
        seen.page.goto(path.as_uri())
        yield seen.page
        assert [one for one in seen.requests if not one.startswith("data:")] == [path.as_uri()]
        own_reads = "willReadFrequently"  # `shade` below reads, the page itself does not
        assert [one for one in seen.errors if own_reads not in one] == []


def word(page, number):
    return page.locator(".picture-word").nth(number)


def shade(page, row, column):
    """How strong the shade of a region is, from 0 to 255."""
    return page.evaluate(
        "([row, column]) => { const canvas = document.querySelector('.picture-shade');"
        "return canvas.hidden ? null :"
        " canvas.getContext('2d').getImageData(column, row, 1, 1).data[3]; }",
        [row, column],
    )


def told(page):
    return page.locator(".picture-told")


def test_it_shows_the_picture_and_its_caption(page):
    expect(page.locator(".picture-word")).to_have_text(WORDS)
    width = page.evaluate("document.querySelector('.picture-image').naturalWidth")
    assert width == 64
    expect(page.locator(".picture-notes li")).to_have_text(
        ["rotated according to its EXIF data", "or: two"]
    )
    expect(told(page)).to_have_text("Point at a word, or at the picture.")


def test_a_word_shows_the_regions_that_it_looked_at(page):
    page.get_by_label("Layer", exact=True).select_option("0")
    word(page, 1).hover()
    assert (shade(page, 0, 1) > 150, shade(page, 0, 0)) == (True, 0)
    expect(page.locator(".patch-scale")).to_contain_text("The most coloured region was given 100")
    page.get_by_role("radio", name="Darken").check()
    word(page, 1).hover()
    assert (shade(page, 0, 1), shade(page, 0, 0) > 150) == (0, True)
    expect(page.locator(".patch-scale")).to_contain_text("The brightest region was given 100")
    expect(told(page)).to_have_text("What “red” looked at: layer 0, the average of its heads.")
    word(page, 2).hover()
    assert shade(page, 0, 2) == 0
    page.mouse.move(0, 0)
    assert shade(page, 0, 0) is None


def test_a_region_shows_its_words(page):
    page.get_by_label("Layer", exact=True).select_option("0")
    box = page.locator(".picture-frame").bounding_box()
    x = box["x"] + 2.5 / COLUMNS * box["width"]
    page.mouse.move(x, box["y"] + 0.5 / ROWS * box["height"])
    expect(told(page)).to_have_text(re.compile("^Row 1, column 3: square 100"))
    shares = [word(page, n).evaluate("e => e.style.getPropertyValue('--share')") for n in range(4)]
    assert shares == ["0", "0", "1", "0"]
    expect(page.locator(".picture-mark")).to_be_visible()
    page.mouse.move(0, 0)
    expect(page.locator(".picture-mark")).to_be_hidden()


def test_layers_can_be_told_apart(page):
    expect(page.get_by_label("Head", exact=True)).to_be_hidden()
    layers = page.get_by_label("Layer", exact=True).locator("option")
    expect(layers).to_have_text(["average", "0", "1"])  # in the words of the other views
    word(page, 0).hover()
    mean = shade(page, 0, 0)
    page.get_by_label("Layer", exact=True).select_option("1")
    word(page, 0).hover()
    assert shade(page, 0, 0) == 0 < mean == shade(page, ROWS - 1, COLUMNS - 1)


def test_small_maps_show_all_layers_and_choose_one(page):
    hint = page.locator(".heads-card .hint")
    expect(hint).to_contain_text("what all words on average looked at in a head, each on its own")
    word(page, 1).click()
    expect(hint).to_contain_text("what “red” looked at in a head")
    page.get_by_role("button", name="layer 1, head 0").click()
    expect(page.get_by_label("Layer", exact=True)).to_have_value("1")
    assert shade(page, ROWS - 1, COLUMNS - 1) > 150
    expect(page.locator(".patch-scale")).to_contain_text("The most coloured region was given 100%.")


def test_a_word_that_was_clicked_stays(page):
    word(page, 1).click()
    page.mouse.move(0, 0)
    word(page, 1).evaluate("e => e.blur()")
    assert shade(page, 0, 1) is not None
    expect(word(page, 1)).to_have_attribute("aria-pressed", "true")
    word(page, 1).click()
    expect(word(page, 1)).to_have_attribute("aria-pressed", "false")


def test_a_region_that_was_tapped_keeps_its_words(chromium, tmp_path):
    path = tmp_path / "look.html"
    path.write_text(render_picture_page(document()), encoding="utf-8")
    with visit(chromium, allow=path.as_uri(), viewport=PHONE, has_touch=True) as seen:
        seen.page.goto(path.as_uri())
        seen.page.locator(".picture-frame").tap(position={"x": 40, "y": 40})
        expect(told(seen.page)).to_contain_text("Row 1, column 1: a 50")
        word(seen.page, 1).tap()
        expect(told(seen.page)).to_contain_text("What “red” looked at")


def test_a_caption_runs_from_right_to_left_and_turns_no_number_round(chromium, tmp_path):
    path = tmp_path / "look.html"
    path.write_text(render_picture_page(document(["ריבוע", "אדום"])), encoding="utf-8")
    with visit(chromium, allow=path.as_uri()) as seen:
        seen.page.goto(path.as_uri())
        first, second = (word(seen.page, number).bounding_box() for number in (0, 1))
        assert first["x"] > second["x"]
        seen.page.locator(".picture-frame").hover(position={"x": 40, "y": 40})
        expect(told(seen.page)).to_contain_text("column 1: \u2068ריבוע\u2069 50")


def test_it_can_be_used_by_keys_alone(page):
    page.get_by_label("Layer", exact=True).select_option("0")
    page.locator(".picture-frame").focus()
    page.keyboard.press("ArrowRight")
    expect(told(page)).to_have_text(re.compile("^Row 1, column 1: a 100"))
    page.keyboard.press("ArrowRight")
    expect(told(page)).to_have_text(re.compile("^Row 1, column 2: red 100"))
    for _ in range(9):
        page.keyboard.press("ArrowDown")
    expect(told(page)).to_have_text(f"Row {ROWS}, column 2: no word looked there")
    page.keyboard.press("Escape")
    expect(told(page)).to_have_text("Point at a word, or at the picture.")
    word(page, 2).focus()
    expect(told(page)).to_contain_text("What “square” looked at")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_keeps_to_the_guidelines_of_accessibility(chromium, tmp_path, scheme):
    path = tmp_path / "look.html"
    path.write_text(render_picture_page(document()), encoding="utf-8")
    with visit(chromium, allow=path.as_uri(), bypass_csp=True, color_scheme=scheme) as seen:
        seen.page.goto(path.as_uri())
        assert violations(seen.page) == []
