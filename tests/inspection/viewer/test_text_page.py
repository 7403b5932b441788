"""The page of a text that a language model read, in a real browser with the network off."""

import re

import pytest
import torch
from playwright.sync_api import expect

from browser import violations, visit
from regard.engines.native.attention_capture import AttentionCapture
from regard.inspection.recording.attention_map import AttentionMaps, Axis
from regard.tasks.families.text_look import LikelyToken
from regard.tasks.language.completion import Completion, with_next
from views import head, readout, word

WORDS = "the", "sea", "is", "calm"
PIECES = tuple(f"▁{one}" for one in WORDS)


def completion():
    """In layer 0 each word looks at itself alone, in layer 1 at the first one alone."""
    weights = torch.zeros(2, 2, 4, 4)
    weights[0] = torch.eye(4)
    weights[1, :, :, 0] = 1
    axis = Axis(PIECES, WORDS, tuple(range(4)))
    capture = AttentionCapture({"decoder": AttentionMaps("decoder", weights, axis, axis)})
    following = LikelyToken("▁today", 0.625), LikelyToken("<0x0A>", 0.25)
    text = " ".join(WORDS)
    without = {"part": "decoder", "layer": 1, "head": 0, "text": with_next(text, following[1])}
    return Completion(text, (), following, attention=capture, ablate=lambda: [without])


@pytest.fixture
def page(chromium, tmp_path):
    path = tmp_path / "look.html"
    path.write_text(completion().page("tiny"), encoding="utf-8")
    with visit(chromium, allow=path.as_uri(), bypass_csp=True) as seen:
        seen.page.context.set_offline(True)
        seen.page.goto(path.as_uri())
        yield seen.page
        assert seen.requests == [path.as_uri()]
        assert seen.errors == []


def test_a_word_that_is_pointed_at_shows_what_it_looked_at(page):
    word(page, "rows", "calm").hover()
    expect(readout(page)).to_have_text("“calm” looked at the 50%, calm 50%.")
    head(page, 0, 1).click()
    word(page, "rows", "calm").hover()
    expect(readout(page)).to_have_text("“calm” looked at calm 100%.")
    page.get_by_label("Layer", exact=True).select_option("1")
    word(page, "rows", "sea").hover()
    expect(readout(page)).to_have_text("“sea” looked at the 100%.")


def test_the_page_speaks_of_a_text_and_of_what_comes_next(page):
    expect(page.locator(".line-name")).to_have_text(["Text, looked at", "Text, looking"])
    card = page.locator(".candidates")
    expect(card.locator("h2")).to_have_text("What comes next")
    expect(card.locator("li")).to_have_text(["today62.5%", "↵25.0%"])
    assert "ranslation" not in page.locator("body").inner_text()
    assert page.title() == "the sea is calm → today"
    assert violations(page) == []


def test_what_comes_next_without_a_head(page):
    expect(head(page, 1, 0)).to_have_class(re.compile("matters"))
    head(page, 1, 0).click(modifiers=["Shift"])
    expect(page.locator(".outcome dd").first).to_have_text("the sea is calm → today")
    expect(page.locator(".outcome ins")).to_have_text("↵")
