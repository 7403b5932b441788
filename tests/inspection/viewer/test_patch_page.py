"""The page of a picture that was read in patches, in a real browser with the network off."""

import re

import pytest
import torch
from playwright.sync_api import expect

from browser import violations, visit
from regard.inspection.viewer.html_page import render_page
from regard.inspection.viewer.layer_maps import encode_layer
from regard.tasks.families.answer import Answer, Candidate
from regard.tasks.families.viewer_document import patch_document
from views import head

WHITE = "data:image/gif;base64,R0lGODlhAQABAIAAAP///wAAACH5BAEAAAAALAAAAAABAAEAAAICRAEAOw=="


def page_of(layers, *, class_token):
    """A page of (weights, grid) of each layer."""
    answer = Answer("cat.png", (Candidate("cat 90.0%", 0.0, 0.0),))
    labels = [{"text": "cat", "score": 0.9}, {"text": "dog", "score": 0.0001}]
    without = [
        {"part": "encoder", "layer": 1, "head": 0, "text": "dog 60.0%"},
        {"part": "encoder", "layer": 1, "head": 1, "text": "cat 80.0%"},  # the same class
    ]
    encoded = [encode_layer(weights, None, grid) for weights, grid in layers]
    picture = {"image": WHITE, "first": int(class_token)}
    return render_page(patch_document(picture, encoded, answer, labels, without=without))


@pytest.fixture
def opened(chromium, tmp_path):
    """Opens pages, which must not complain of anything."""
    path = tmp_path / "look.html"
    with visit(chromium, allow=path.as_uri(), bypass_csp=True) as seen:

        def go(layers, *, class_token):
            path.write_text(page_of(layers, class_token=class_token), encoding="utf-8")
            seen.page.context.set_offline(True)
            seen.page.goto(path.as_uri())
            return seen.page

        yield go
        assert seen.errors == []


def vit():
    """Two layers of two heads over a class token and 2 x 3 patches: in layer 0 all looks are even,
    in layer 1 the class token looks at patch 4, by head 1 half at itself, and patches at their own.
    """
    even, own = torch.full((2, 7, 7), 1 / 7), torch.eye(7).expand(2, -1, -1).clone()
    own[0, 0] = torch.eye(7)[5]
    own[1, 0] = (torch.eye(7)[5] + torch.eye(7)[0]) / 2
    return [(even, (2, 3)), (own, (2, 3))]


def title(page):
    return page.locator(".shown-title")


def test_what_the_class_token_looked_at_in_each_head(opened):
    page = opened(vit(), class_token=True)
    expect(title(page)).to_have_text(
        "What the class token looked at: layer 1, the average of its heads"
    )
    told = "Most at row 2 column 2: 75%; 25% on the class token itself."
    expect(page.locator(".readout")).to_contain_text(told)
    head(page, 1, 0).click()
    expect(title(page)).to_have_text("What the class token looked at: layer 1, head 0")
    expect(page.locator(".patch-scale")).to_contain_text("patch was given 100%")
    assert violations(page) == []


def test_a_patch_that_is_pointed_at_looks_in_place_of_the_class_token(opened):
    page = opened(vit(), class_token=True)
    box = page.locator(".picture-frame").bounding_box()
    page.mouse.move(box["x"] + 0.9 * box["width"], box["y"] + 0.1 * box["height"])
    expect(title(page)).to_contain_text("the patch in row 1, column 3")
    expect(page.locator(".readout")).to_contain_text("row 1 column 3: 100%")
    page.mouse.move(0, 0)
    expect(title(page)).to_contain_text("the class token")
    page.locator(".picture-frame").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    expect(title(page)).to_contain_text("the patch in row 2, column 1")


def test_rollout_traces_all_layers_back_to_the_picture(opened):
    page = opened(vit(), class_token=True)
    page.get_by_label("Rollout").check()
    expect(title(page)).to_have_text("What the class token looked at: rollout of layers 0 to 1")
    # R = (A1 + I) / 2 (A0 + I) / 2; the class token's row, with A1 the mean of both heads
    step = [(weights.mean(0) + torch.eye(7)) / 2 for weights, _ in vit()]
    expected = (step[1] @ step[0])[0, 5]
    expect(page.locator(".readout")).to_contain_text(
        f"row 2 column 2: {round(100 * float(expected))}%"
    )


def test_windows_lie_where_they_are_in_the_picture_and_patches_are_merged(opened):
    """Swin: 4 x 4 patches in four windows, then 2 x 2 merged ones that all look at the last."""
    places = torch.arange(16)
    window = places // 8 * 2 + places % 4 // 2
    within = (window[:, None] == window).float() / 4
    last = torch.eye(4)[3].expand(4, 4)
    page = opened([(within[None], (4, 4)), (last.expand(3, -1, -1), (2, 2))], class_token=False)
    expect(title(page)).to_contain_text("all patches on average")
    expect(page.locator(".readout")).to_contain_text("row 2 column 2: 100%")
    page.get_by_label("Layer", exact=True).select_option("0")
    box = page.locator(".picture-frame").bounding_box()
    page.mouse.move(box["x"] + 0.9 * box["width"], box["y"] + 0.1 * box["height"])
    page.wait_for_timeout(50)
    coloured = page.evaluate(
        "[...document.querySelector('.picture-shade').getContext('2d').getImageData(0, 0, 4, 4)"
        ".data].filter((_, at) => at % 4 === 3)"
    )
    assert [place for place, alpha in enumerate(coloured) if alpha > 0] == [2, 3, 6, 7]
    page.mouse.move(0, 0)
    page.get_by_label("Layer", exact=True).select_option("1")
    page.get_by_label("Rollout").check()
    expect(page.locator(".readout")).to_contain_text("row 3 column 3")  # of the first grid
    head(page, 0, 0).focus()
    page.keyboard.press("ArrowDown")
    expect(head(page, 1, 0)).to_be_focused()
    page.keyboard.press("End")
    page.keyboard.press("ArrowUp")  # layer 0 has fewer heads
    expect(head(page, 0, 0)).to_be_focused()


def test_a_head_that_is_silenced_shows_the_other_class(opened):
    page = opened(vit(), class_token=True)
    expect(head(page, 1, 0)).to_have_class(re.compile("matters"))
    expect(head(page, 1, 1)).not_to_have_class(re.compile("matters"))
    head(page, 1, 0).click(modifiers=["Shift"])
    expect(page.locator(".outcome .texts ins")).to_have_text(["dog", "60.0%"])  # one word
    expect(page.locator(".candidates li").first).to_contain_text("cat")


def test_the_answer_and_small_probabilities_are_told_apart_from_their_numbers(opened):
    page = opened(vit(), class_token=True)
    expect(page.locator(".patch-answer bdi")).to_have_text("cat")
    expect(page.locator(".patch-answer .score")).to_have_text("90.0%")
    expect(page.locator(".candidates .score")).to_have_text(["90.0%", "< 0.1%"])
