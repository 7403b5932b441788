"""Files that are handed to the page."""

from pathlib import Path

from playwright.sync_api import expect

from pages import FRENCH, notice, translated


def test_a_file_is_translated(page, server, tmp_path):
    letter = tmp_path / "letter.txt"
    letter.write_text(f"{FRENCH}\n\n{FRENCH}\n")
    page.get_by_label("Translate a file").set_input_files(letter)
    with page.expect_download() as download:
        page.get_by_role("link", name="Download letter.en.txt").click()
    line = translated(server, alternatives=0)
    assert Path(download.value.path()).read_text() == f"{line}\n\n{line}\n"
    page.get_by_label("Text to translate").fill(FRENCH)
    expect(page.get_by_role("link", name="Download")).to_be_hidden()


def test_an_unsupported_file_shows_a_notice(page, tmp_path):
    (tmp_path / "photo.jpg").write_bytes(b"\xff\xd8")
    page.get_by_label("Translate a file").set_input_files(tmp_path / "photo.jpg")
    expect(notice(page)).to_contain_text("photo.jpg: this server translates .txt")
