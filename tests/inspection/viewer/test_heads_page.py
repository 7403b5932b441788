"""Heads compared, queries and keys, sentence pairs and long texts, in a real browser."""

import json
import time

import pytest
import torch
from playwright.sync_api import expect

from browser import violations, visit
from regard.engines.native.attention_capture import AttentionCapture
from regard.inspection.recording.attention_map import AttentionMaps, Axis, AxisSegment
from regard.inspection.viewer.html_page import notebook_page, render_page
from regard.tasks.families.answer import Answer, Candidate
from regard.tasks.families.viewer_document import viewer_document
from regard.types import ScoreInputs
from views import head, readout, word

FIRST, SECOND = ("the", "sea"), ("is", "calm")
PIECES = ("[CLS]", "▁the", "▁sea", "[SEP]", "▁is", "▁calm", "[SEP]")


def text_document(queries, keys, pieces=PIECES, middle=4):
    """A masked language model's document, for queries and keys (L, H, S, K), of a pair."""
    word_of, words = [], []
    for piece in pieces:
        word_of.append(len(words) if piece.startswith("▁") else None)
        words += [piece.removeprefix("▁")] if piece.startswith("▁") else []
    pair = AxisSegment("first", 0, middle), AxisSegment("second", middle, len(pieces))
    axis = Axis(tuple(pieces), tuple(words), tuple(word_of), segments=pair)
    scale = queries.shape[-1] ** -0.5
    scores = [
        ScoreInputs(q, k, None, None, scale) for q, k in zip(queries, keys, strict=True)
    ]  # (H, S, K)
    weights = (queries @ keys.mT * scale).softmax(-1)
    maps = AttentionMaps("encoder", weights, axis, axis, scores=tuple(scores))
    capture, text = AttentionCapture({"encoder": maps}), " ".join(words)
    answer = Answer(text, (Candidate(text, 0.0, 0.0),), attention=capture)
    return {**viewer_document(answer, model="bert"), "kind": "masked"}


def pair_document():
    """Two layers of three heads: head 1 of layer 0 looks at the piece behind, head 2 at calm."""
    count, width = len(PIECES), 8
    queries, keys = torch.zeros(2, 3, count, width), torch.zeros(2, 3, count, width)
    keys[0, :, :, :count] = torch.eye(count)
    queries[0, 1, :, :count] = 20 * torch.eye(count).roll(1, 1)
    queries[0, 2, :, 5] = 20
    return text_document(queries, keys)


@pytest.fixture
def opened(chromium, tmp_path):
    path = tmp_path / "look.html"
    with visit(chromium, allow=path.as_uri(), bypass_csp=True) as seen:

        def go(document):
            path.write_text(render_page(document), encoding="utf-8")
            seen.page.context.set_offline(True)
            seen.page.goto(path.as_uri())
            return seen.page

        yield go
        assert seen.errors == []
        assert seen.requests == [path.as_uri()]


def strokes(page):
    return page.evaluate(
        "[...new Set([...document.querySelectorAll('.strand')]"
        ".map((path) => getComputedStyle(path).stroke))]"
    )


def test_compared_heads_are_drawn_without_pointing_each_in_its_colour(opened):
    page = opened(pair_document())
    page.get_by_label("Layer", exact=True).select_option("0")
    for number in "12":
        page.get_by_role("button", name=f"{number}, head of layer 0").click()
    expect(page.locator(".shown-title")).to_contain_text("layer 0, heads 1, 2")
    assert len(strokes(page)) == 2
    word(page, "rows", "the").hover()
    expect(readout(page)).to_contain_text("layer 0, head 1: sea")
    expect(readout(page)).to_contain_text("layer 0, head 2: calm")
    assert word(page, "columns", "calm").locator(".stripes i").count() == 2
    page.mouse.move(0, 0)
    head(page, 1, 0).click(modifiers=["Control"])  # of another layer
    expect(page.locator(".shown-title")).to_contain_text("layer 0, heads 1, 2; layer 1, head 0")
    assert violations(page) == []
    page.get_by_role("button", name="none").click()
    expect(page.locator(".strand")).to_have_count(0)


def test_a_compared_head_with_another_sink_keeps_its_weights_at_their_words(opened):
    queries, keys = torch.zeros(2, 1, 3, len(PIECES), 8).unbind(0)
    keys[0, :, :, : len(PIECES)] = torch.eye(len(PIECES))
    queries[0, :2, :, 0] = 20  # two heads rest on [CLS], which is a sink of their average
    queries[0, 2, :, 6], queries[0, 2, :, 5] = 20, 19  # and one on [SEP] and on calm
    page = opened(text_document(queries, keys))
    page.get_by_role("button", name="2, head of layer 0").click()
    word(page, "rows", "the").hover()
    expect(readout(page)).to_have_text("“the” looked at · layer 0, head 2: calm 41%")


def test_a_query_a_key_and_their_products_number_by_number(opened):
    torch.manual_seed(2)
    queries, keys = torch.randn(2, 1, 2, 7, 4).unbind(0)
    page = opened(text_document(queries, keys))
    page.get_by_label("Query × key").check()
    page.get_by_label("Head", exact=True).select_option("1")
    page.get_by_label("Looks", exact=True).select_option("2")
    page.get_by_label("Is looked at").select_option("5")
    page.get_by_label("In order").check()
    q, k = queries[0, 1, 2].half().float(), keys[0, 1, 5].half().float()
    shown = page.locator(".neuron-numbers tbody tr")
    expect(shown).to_have_count(4)
    for place in range(4):
        numbers = [q[place], k[place], q[place] * k[place]]
        cells = [f"{float(number):.3f}".replace("-", "−") for number in numbers]
        expect(shown.nth(place).locator("td")).to_have_text(cells)
    weight = (queries[0, 1] @ keys[0, 1].mT / 2).softmax(-1)[2, 5]
    sentence = page.locator(".neuron-formula")
    expect(sentence).to_contain_text("“sea” and “calm”")
    expect(sentence).to_contain_text(f"makes {100 * float(weight):.0f}")
    page.get_by_role("button", name="i: more about queries and keys").click()
    expect(page.locator(".neurons .info-note")).to_be_visible()
    assert violations(page) == []


SIGNS = """all => all.map((canvas) => {
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, 1);
  return [...Array(canvas.width).keys()].map((at) => data[4 * at] > data[4 * at + 2] ? 1 : -1);
})"""
"""1 for each orange number of strips, -1 for each blue one."""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_numbers_above_0_are_orange_and_those_below_blue_as_in_figures(opened, scheme):
    queries, keys = torch.tensor([[1.0, -1.0, 0.5, -0.5]]).repeat(2, 1, 1, 7, 1).unbind(0)
    page = opened(text_document(queries, keys))
    page.emulate_media(color_scheme=scheme)
    page.get_by_label("Query × key").check()
    expect(page.locator(".neuron-scales")).to_contain_text("Orange is above 0, blue below")
    assert page.locator(".query .strip").evaluate_all(SIGNS) == [[1, -1, 1, -1]]
    colours = page.locator(".neuron-numbers tbody td").evaluate_all(
        "all => all.map((one) => getComputedStyle(one).color.match(/\\d+/g).map(Number))"
    )
    signs = [cell[0] == "−" for cell in page.locator(".neuron-numbers td").all_inner_texts()]
    assert [red < blue for red, _, blue in colours] == signs


def test_sentences_of_a_pair_are_named_and_can_be_shown_alone(opened):
    page = opened(pair_document())
    expect(page.locator(".columns .segment")).to_have_text(["first", "second"])
    page.get_by_label("Sentences").select_option(label="first → second")
    expect(page.locator(".rows .word .letters")).to_have_text(list(FIRST))
    expect(page.locator(".columns .word .letters")).to_have_text(list(SECOND))
    page.get_by_label("Layer", exact=True).select_option("0")
    page.get_by_label("Head", exact=True).select_option("2")
    word(page, "rows", "sea").hover()
    expect(readout(page)).to_contain_text("resting on calm 99%")


@pytest.mark.parametrize("count", [3, 36])
def test_each_sentence_of_a_pair_begins_a_row_where_one_is_too_short(opened, count):
    words = [f"▁sea{number}" for number in range(count)]
    pieces = ["[CLS]", *words, "[SEP]", *words, "[SEP]"]
    vectors = torch.zeros(1, 1, len(pieces), 2)
    page = opened(text_document(vectors, vectors, pieces, middle=count + 2))
    last = page.locator(".rows .word").nth(count - 1).bounding_box()
    second = page.locator(".rows .segment").last.bounding_box()
    below = second["y"] > last["y"] + last["height"] / 2
    assert below == (count == 36)


def test_a_bert_of_512_tokens_opens_fast_and_its_even_head_is_even(opened, tmp_path):
    torch.manual_seed(0)
    layers, heads, count, width = 12, 12, 512, 64
    queries, keys = torch.randn(2, layers, heads, count, width).unbind(0)
    queries[0, 0] = 0
    words = [f"▁w{number}" for number in range(count - 3)]
    pieces = ["[CLS]", *words[:250], "[SEP]", *words[250:], "[SEP]"]
    document = text_document(queries, keys, pieces, middle=252)
    assert len(json.dumps(document)) < 30e6
    started = time.perf_counter()
    page = opened(document)
    expect(readout(page)).to_contain_text("every word looked at all others alike")
    assert time.perf_counter() - started < 10  # alone on a machine it takes less than two
    expect(page.locator(".shown-title")).to_contain_text("layer 0, head 0")
    word(page, "rows", "w7").first.hover()
    expect(readout(page)).to_contain_text("looked at 509 words alike, 0.2% each")
    page.get_by_label("Map").check()
    expect(page.locator(".scale span").last).to_have_text("0.2%")
    alphas = page.evaluate(
        "[...new Set(document.querySelector('.cells').getContext('2d').getImageData(0, 0, 99, 99)"
        ".data.filter((_, at) => at % 4 === 3))]"
    )
    assert len(alphas) == 1
    assert alphas[0] > 240


def test_a_notebook_shows_the_viewer_in_a_frame_without_server_or_network(chromium, tmp_path):
    path = tmp_path / "notebook.html"
    shown = notebook_page(render_page(pair_document()), "<p>a picture</p>")
    path.write_text(f"<!doctype html><meta charset=utf-8><title>n</title>{shown}", encoding="utf-8")
    with visit(chromium, allow=path.as_uri()) as seen:
        seen.page.context.set_offline(True)
        seen.page.goto(path.as_uri())
        frame = seen.page.frame_locator("iframe")
        frame.get_by_label("Layer", exact=True).select_option("0")
        frame.get_by_label("Head", exact=True).select_option("1")
        frame.locator(".rows .word").filter(has_text="the").hover()
        expect(frame.locator(".stage .readout")).to_contain_text("“the” looked at sea")
        assert seen.errors == []
    assert notebook_page("x" * 9_000_000, "<p>a picture</p>") == "<p>a picture</p>"
