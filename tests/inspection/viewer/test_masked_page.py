"""The page of a text whose masked places are filled, in a real browser with the network off."""

import pytest
import torch
from playwright.sync_api import expect

from browser import violations, visit
from regard.engines.native.attention_capture import AttentionCapture
from regard.inspection.recording.attention_map import AttentionMaps, Axis
from regard.tasks.families.text_look import LikelyToken
from regard.tasks.masked.filling import FilledMask, Filling
from views import head, readout, word

PIECES = "[CLS]", "▁the", "[MASK]", "▁is", "▁calm", "[SEP]"
WORDS = "the", "[MASK]", "is", "calm"


def filling():
    """In layer 0 each token looks at itself alone, in layer 1 at the one behind it."""
    weights = torch.zeros(2, 2, 6, 6)
    weights[0] = torch.eye(6)
    weights[1] = torch.eye(6).roll(1, 1)
    axis = Axis(PIECES, WORDS, (None, 0, 1, 2, 3, None))
    capture = AttentionCapture({"encoder": AttentionMaps("encoder", weights, axis, axis)})
    tokens = LikelyToken("▁sea", 0.625), LikelyToken("▁lake", 0.25)
    texts = "the sea is calm", "the lake is calm"
    without = {"part": "encoder", "layer": 1, "head": 0, "text": texts[1]}
    masks = (FilledMask(tokens, texts),)
    return Filling(
        "the [MASK] is calm", masks, texts[0], attention=capture, ablate=lambda: [without]
    )


@pytest.fixture
def page(chromium, tmp_path):
    path = tmp_path / "look.html"
    path.write_text(filling().page("tiny"), encoding="utf-8")
    with visit(chromium, allow=path.as_uri(), bypass_csp=True) as seen:
        seen.page.context.set_offline(True)
        seen.page.goto(path.as_uri())
        yield seen.page
        assert seen.errors == []


def test_a_masked_place_shows_what_it_looked_at_on_both_sides(page):
    word(page, "rows", "[MASK]").hover()
    expect(readout(page)).to_have_text("“[MASK]” looked at [MASK] 50%, is 50%.")
    head(page, 1, 1).click()
    word(page, "rows", "the").hover()
    expect(readout(page)).to_have_text("“the” looked at [MASK] 100%.")


def test_the_page_speaks_of_a_text_and_of_what_fills_it(page):
    card = page.locator(".candidates")
    expect(card.locator("h2")).to_have_text("What may stand in masked places")
    expect(card.locator("li")).to_have_text(["sea62.5%", "lake25.0%"])
    assert "ranslation" not in page.locator("body").inner_text()
    assert page.title() == "the [MASK] is calm → the sea is calm"
    assert violations(page) == []


def test_what_fills_it_without_a_head(page):
    head(page, 1, 0).click(modifiers=["Shift"])
    expect(page.locator(".outcome dd").first).to_have_text("the sea is calm")
    expect(page.locator(".outcome ins")).to_have_text("lake")
