"""The tree of a search in a real browser."""

import re

from playwright.sync_api import expect

from looks import make_document
from views import PHONE, SHORT, opened


def test_the_tree_tells_each_hypothesis(short):
    tree = short.get_by_role("tree")
    expect(tree.get_by_role("treeitem")).to_have_count(8)
    told = short.locator(".tree .readout")
    best = "the sea · log-probability −0.50 (60.7%) · score −0.50 · this is the translation"
    expect(told).to_have_text(best)
    short.locator('[data-node="3"]').hover()
    expect(told).to_have_text("our · log-probability −4.00 (1.8%) · was dropped")
    expect(short.locator(".node.won")).to_have_count(4)
    short.locator('[data-node="0"]').focus()
    for key in ("ArrowRight", "ArrowDown", "ArrowRight"):
        short.keyboard.press(key)
    expect(told).to_contain_text("a sea · log-probability −2.00")
    short.get_by_role("checkbox", name="dropped").uncheck()
    expect(tree.get_by_role("treeitem")).to_have_count(7)
    expect(short.locator(".tree-legend")).to_contain_text("(1 not drawn)")


def test_a_tree_that_is_cut_says_where_it_goes_on_and_can_fit_its_frame(chromium, tmp_path, short):
    more = ".tree .more"
    expect(short.locator(more)).to_be_hidden()
    document = make_document(*SHORT)
    nodes = document["tree"]["nodes"]
    for _ in range(40):
        nodes.append((len(nodes) - 1, "▁again", -9.0, "kept"))
    with opened(chromium, tmp_path, document, viewport=PHONE) as page:
        expect(page.locator(more)).to_have_text(re.compile("^There is more to the right: scroll"))
        page.evaluate("document.querySelector('.tree-scroll').scrollLeft = 99999")
        expect(page.locator(more)).to_have_text(re.compile("^There is more to the left: scroll"))
        page.get_by_label("Fit").check()
        expect(page.locator(more)).to_be_hidden()


CROSSED = """() => {
  const boxes = [...document.querySelectorAll(".node rect")].map((rect) => rect.getBBox());
  const inside = ({ x, y }, box) =>
    x > box.x + 1 && x < box.x + box.width - 1 && y > box.y + 1 && y < box.y + box.height - 1;
  return [...document.querySelectorAll(".edge")].filter((edge) => {
    const places = Array.from({ length: 101 }, (_, at) => (at * edge.getTotalLength()) / 100);
    return places.some((at) => boxes.some((box) => inside(edge.getPointAtLength(at), box)));
  }).length;
}"""


def test_no_line_runs_through_a_box(chromium, tmp_path):
    document = make_document(*SHORT)
    nodes = document["tree"]["nodes"]
    nodes += [(0, "▁extraordinary", -3.0, "dropped"), (1, "▁mountains", -2.0, "dropped")]
    nodes += [(1, piece, -5.0, "dropped") for piece in ("▁land", "▁sky", "▁end", "▁rain")]
    with opened(chromium, tmp_path, document) as page:
        assert page.evaluate(CROSSED) == 0
