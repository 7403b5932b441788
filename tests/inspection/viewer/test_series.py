"""The page of a forecast answers the pointer and the keys, with the network off."""

from contextlib import contextmanager
from itertools import pairwise

import numpy as np
import pytest
import torch

from browser import violations, visit
from regard.inspection.plots.time_weights import TimeWeights
from regard.tasks.forecast.pipeline import SeriesAnswer
from views import PHONE

NUMBERS = ("1", "1", "2", "3", "5", "8")
WEIGHTS = torch.tensor([0.0, -0.25, 0.0, 0.125, 0.75, 0.5])


def page_of(times=1):
    given = np.array([[float(number)] for number in NUMBERS * times])
    scaled = torch.tensor(given / 8), torch.tensor([1.625])
    attention = TimeWeights(*scaled, WEIGHTS.repeat(times), NUMBERS * times, "13", normalized=False)
    forecast, notes = np.array([[13.0]]), ("<b>a note</b>",)
    answer = SeriesAnswer(given, forecast, notes=notes, attention=attention)
    return answer.page("tiny")


@contextmanager
def opened(chromium, folder, times=1, **options):
    path = folder / "look.html"
    path.write_text(page_of(times), encoding="utf-8")
    with visit(chromium, allow=path.as_uri(), **options) as seen:
        seen.page.context.set_offline(True)
        seen.page.goto(path.as_uri())
        yield seen.page
        assert seen.requests == [path.as_uri()]
        assert seen.errors == []


@pytest.fixture
def page(chromium, tmp_path):
    with opened(chromium, tmp_path) as page:
        yield page


def test_a_bar_for_each_time_step_in_the_colour_of_its_sign(page):
    assert page.locator(".series-bar").count() == 6
    assert page.locator(".series-bar.negative").count() == 1
    assert page.locator(".series-answer").text_content() == "→ 13"
    assert page.locator(".series-notes").text_content() == "<b>a note</b>"
    names = page.locator(".series-name").all_text_contents()
    assert names == ["series", "weights: orange above 0, blue below"]
    heights = [float(bar.get_attribute("height")) for bar in page.locator(".series-bar").all()]
    assert heights[4] == pytest.approx(3 * heights[1])


def test_it_tells_what_is_pointed_at(page):
    told = page.locator(".series-told")
    assert told.text_content().startswith("Weights of 6 time steps (no distribution")
    box = page.locator(".series-frame svg").bounding_box()
    page.mouse.move(box["x"] + box["width"] * 1.5 / 7, box["y"] + box["height"] / 2)
    assert told.text_content() == "1 (4 before the last): weight −0.2500"
    page.locator(".series-frame").focus()
    page.mouse.move(0, 0)
    page.keyboard.press("ArrowRight")
    assert told.text_content() == "8 (the last): weight 0.5000"
    page.keyboard.press("ArrowLeft")
    assert told.text_content() == "5 (1 before the last): weight 0.7500"
    page.keyboard.press("Escape")
    assert told.text_content().startswith("Weights of 6 time steps")


def test_numbers_and_weights_stand_upright_where_they_fit(page):
    fit = """() => [...document.querySelectorAll(".series-label")].map((label) => {
      const { left, right, width, height } = label.getBoundingClientRect();
      return [left, right, width > 0 && height < 24];
    })"""
    places = page.evaluate(fit)
    assert all(upright for _, _, upright in places)
    assert all(right < left for (_, right, _), (left, _, _) in pairwise(places))
    named = page.locator(".series-weight").all_text_contents()
    assert named == ["0.00", "−0.25", "0.00", "0.13", "0.75", "0.50"]


def test_on_a_phone_a_long_series_scrolls_and_keys_reach_all_of_it(chromium, tmp_path):
    with opened(chromium, tmp_path, times=8, viewport=PHONE, has_touch=True) as page:
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert page.locator(".series-label").last.evaluate("(one) => one.getBBox().height") > 12
        page.locator(".series-frame").focus()
        page.keyboard.press("ArrowRight")
        assert page.locator(".series-told").text_content() == "8 (the last): weight 0.5000"
        assert page.locator(".series-frame").evaluate("(frame) => frame.scrollLeft") > 100
        page.locator(".series-frame").tap()
        assert "before the last" in page.locator(".series-told").text_content()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_can_be_read_by_everybody(chromium, tmp_path, scheme):
    with opened(chromium, tmp_path, bypass_csp=True, color_scheme=scheme) as page:
        assert violations(page) == []
