"""What the page does when the server or the network fails, or a link or text is wrong."""

import json
import re

import pytest
from libretranslatepy import LibreTranslateAPI
from playwright.sync_api import expect

from browser import visit
from pages import (
    DESK,
    FRENCH,
    SEVERAL,
    answer_once,
    bodies,
    looked,
    notice,
    open_page,
    readout,
    translated,
    translation,
    write,
)

SESAME = "open-sesame-open-sesame"


def test_a_link_with_invalid_interventions_still_opens(rough, server):
    rough.goto(f"{server}#from=fr&to=en&change=silence.cross.99.0&text=Elle+part.")
    looked(rough)
    expect(rough.locator("#view .chip")).to_have_count(0)
    expect(notice(rough)).to_contain_text("layer")
    assert "change" not in rough.url


def test_malformed_parts_of_a_link_are_left_out(page):
    read = "async (text) => (await import('/static/page/state.js')).fromFragment(text)"
    state = page.evaluate(
        read, "#look=cross.x.1&change=silence.cross.*.1&change=force.1&sentence=-2"
    )
    assert state == {
        "text": "", "source": "", "target": "", "sentence": 0, "choice": None, "changes": []
    }  # fmt: skip


def test_a_request_to_a_busy_server_is_repeated(rough, server):
    open_page(rough, server)
    answer_once(
        rough, "/translate/stream", status=503, headers={"Retry-After": "1"}, json={"error": "full"}
    )
    rough.get_by_label("Text to translate").fill(FRENCH)
    expect(notice(rough)).to_have_text("The server is busy. Asking again in 1 s.")
    looked(rough)
    expect(notice(rough)).to_be_empty()


def test_an_unreachable_server_can_be_tried_again(rough, server):
    open_page(rough, server)
    rough.route("**/translate/stream", lambda route: route.abort(), times=1)
    rough.get_by_label("Text to translate").fill(FRENCH)
    expect(notice(rough)).to_contain_text("cannot be reached")
    expect(rough.get_by_label("Text to translate")).to_have_value(FRENCH)
    rough.get_by_role("button", name="Try again").click()
    looked(rough)
    expect(notice(rough)).to_be_empty()


def test_the_request_is_repeated_once_the_server_is_back(rough, server):
    open_page(rough, server)
    for path in ("**/translate/stream", "**/ready"):
        rough.route(path, lambda route: route.abort(), times=1)
    rough.get_by_label("Text to translate").fill(FRENCH)
    expect(notice(rough)).to_contain_text("sent once it is back")
    looked(rough)
    expect(notice(rough)).to_be_empty()


@pytest.mark.parametrize(
    ("link", "told"),
    [
        ("from=de&to=ja", "German into Japanese, which .* not have: this is the detected"),
        ("from=de&to=en", "German into English, which .* not have: this is the detected"),
        ("from=fr&to=x-y", "French into x-y, which .* not have: this is French into English"),
        ("from=auto&to=en", "^$"),
    ],
)
def test_a_link_for_missing_languages_shows_a_notice(rough, server, link, told):
    rough.goto(f"{server}#{link}&text=Elle+part.")
    looked(rough)
    expect(notice(rough)).to_have_text(re.compile(told))
    rough.get_by_label("Translate from").select_option("en")
    looked(rough)
    expect(notice(rough)).to_be_empty()


def test_a_server_unreachable_from_the_start_shows_a_notice(rough, server):
    rough.route("**/languages", lambda route: route.abort(), times=1)
    rough.goto(server)
    expect(notice(rough)).to_contain_text("cannot be reached")
    rough.get_by_role("button", name="Try again").click()
    write(rough)


@pytest.mark.parametrize(
    "answer",
    [
        {"status": 404, "json": {"error": "no such route"}},
        {"status": 200, "content_type": "text/event-stream", "body": "event: partial\ndata: {}\n"},
    ],
    ids=["no streaming", "broken off"],
)
def test_without_streaming_the_translation_is_shown_whole(rough, server, answer):
    open_page(rough, server)
    answer_once(rough, "/translate/stream", **answer)
    with rough.expect_response("**/translate"):
        write(rough)
    expect(translation(rough)).to_have_text(translated(server))


def test_without_streaming_sentences_can_be_stepped_through(rough, server):
    open_page(rough, server)
    answer_once(rough, "/translate/stream", status=404, json={"error": "no such route"})
    write(rough, SEVERAL)
    expect(rough.get_by_text("sentence 1 of 4")).to_be_visible()
    rough.get_by_role("button", name="The sentence after").click()
    expect(rough.locator("#view .columns .word").first).to_have_text("Il")


def test_failed_attention_leaves_the_shown_document(rough, server):
    open_page(rough, server)
    write(rough)
    rough.route("**/ready", lambda route: route.abort())
    rough.route("**/attention", lambda route: route.abort(), times=1)
    rough.get_by_role("button", name="layer 0, head 1").click(modifiers=["Shift"])
    expect(notice(rough)).to_contain_text("cannot be reached")
    expect(readout(rough)).to_contain_text("did not answer: this is how it was before")
    expect(rough.locator("#view .chip")).to_have_count(0)
    expect(rough.get_by_text("Translating again")).to_be_hidden()
    looked(rough)
    rough.get_by_role("button", name="Try again").click()
    expect(rough.locator("#view .chip")).to_have_count(1)
    looked(rough)
    expect(notice(rough)).to_be_empty()


def test_what_took_too_long_is_said_and_not_sent_again_by_itself(rough, server):
    open_page(rough, server)
    answer_once(rough, "/attention", status=504, json={"error": "no answer within 60 s"})
    rough.get_by_label("Text to translate").fill(FRENCH)
    expect(notice(rough)).to_have_text("The server could not do it: no answer within 60 s")
    expect(rough.get_by_role("button", name="Try again")).to_be_visible()


def test_failed_attention_hides_another_sentence(rough, server):
    open_page(rough, server)
    write(rough, SEVERAL)
    rough.route("**/ready", lambda route: route.abort())
    rough.route("**/attention", lambda route: route.abort(), times=1)
    rough.get_by_role("button", name="The sentence after").click()
    expect(notice(rough)).to_contain_text("cannot be reached")
    expect(rough.locator("#view")).to_be_hidden()
    rough.get_by_role("button", name="Try again").click()
    expect(rough.locator("#view .columns .word").first).to_have_text("Il")


def test_events_are_read_however_the_network_cuts_them(page):
    told = page.evaluate(
        """async (stream) => {
          const {readEvents} = await import('/static/page/events.js');
          const bytes = new TextEncoder().encode(stream);
          const body = new ReadableStream({start(controller) {
            for (const byte of bytes) controller.enqueue(Uint8Array.of(byte));
            controller.close();
          }});
          const told = [];
          for await (const event of readEvents(body)) told.push(event);
          return told;
        }""",
        ": hello\r\n\r\nevent: partial\r\ndata: é\r\ndata:: b\r\n\r\ndata: unfinished",
    )
    assert told == [{"event": "partial", "data": "é\n: b"}]


def test_an_error_in_a_stream_is_shown(rough, server):
    rough.goto(server)
    failed = f"event: error\ndata: {json.dumps({'error': 'the model fell over'})}\n\n"
    answer_once(rough, "/translate/stream", content_type="text/event-stream", body=failed)
    rough.get_by_label("Text to translate").fill(FRENCH)
    expect(notice(rough)).to_have_text("The server could not do it: the model fell over")


def test_a_text_that_is_too_long_is_not_sent(page):
    sent = bodies(page, "/translate/stream")
    page.get_by_label("Text to translate").fill("🙂" * 50_001)
    expect(notice(page)).to_contain_text("has 50,001 characters; this server takes 50,000")
    expect(page.get_by_text("50,001 / 50,000")).to_be_visible()
    assert sent == []
    page.get_by_role("button", name="Clear the text").click()
    expect(notice(page)).to_be_empty()


@pytest.mark.slow
def test_a_key_is_asked_for_where_one_is_needed(chromium, serve, tiny_run):
    with (
        serve(f"fr-en={tiny_run}", REGARD_API_KEYS=SESAME) as server,
        visit(chromium, allow=server, viewport=DESK) as seen,
    ):
        assert LibreTranslateAPI(server, SESAME).translate(FRENCH, "fr", "en")
        page = seen.page
        open_page(page, server)
        page.get_by_label("Text to translate").fill(FRENCH)
        expect(notice(page)).to_contain_text("asks for an API key")
        key = page.get_by_label("API key")
        expect(key).to_be_focused()
        page.keyboard.type("simsim")
        page.keyboard.press("Enter")
        expect(notice(page)).to_contain_text("does not know this API key")
        key.fill(SESAME)
        page.keyboard.press("Enter")
        looked(page)
        expect(notice(page)).to_be_empty()
        page.reload()
        looked(page)


def test_no_key_is_asked_for_where_none_is_needed(page):
    expect(page.get_by_label("API key")).to_be_hidden()
