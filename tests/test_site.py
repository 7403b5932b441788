"""What is wrong with a site is found by its check, which `make docs` runs over all pages."""

import importlib.util
from pathlib import Path

import pytest

FILE = Path(__file__).parents[1] / "docs" / "site_build" / "site_check.py"
GOOD = """<link rel="stylesheet" href="style.css"><link rel="canonical" href="https://a.b/">
<h1 id="top">T</h1><a href="#top">x</a><a href="sub/other.html#là">x</a><a href="https://a.b">x</a>
<img src="data:image/png;base64,AA=="><img src="a%20b.png"><script>"https://a.b/c.js"</script>"""


@pytest.fixture
def find_faults(tmp_path):
    spec = importlib.util.spec_from_file_location("site_check", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "other.html").write_text(
        '<p id="là"><a href="../index.html">x</a>', "utf-8"
    )
    (tmp_path / "style.css").write_text("p { background: url('a%20b.png') }")
    (tmp_path / "a b.png").write_bytes(b"")

    def find(page=GOOD, style=None):
        (tmp_path / "index.html").write_text(page, "utf-8")
        if style is not None:
            (tmp_path / "style.css").write_text(style)
        return list(module.find_faults(tmp_path))

    return find


def test_a_good_site_has_no_faults(find_faults):
    assert find_faults() == []


@pytest.mark.parametrize(
    ("added", "fault"),
    [
        ('<script src="https://a.b/c.js"></script>', "fetched from elsewhere: https://a.b/c.js"),
        ('<link rel="preload stylesheet" href="//a.b/c">', "fetched from elsewhere: //a.b/c"),
        ('<iframe src="http://a.b/"></iframe>', "fetched from elsewhere: http://a.b/"),
        ('<p style="background: url(https://a.b/c)">', "fetched from elsewhere: https://a.b/c"),
        ("<style>@import 'https://a.b/c';</style>", "fetched from elsewhere: https://a.b/c"),
        ('<img src="missing.png">', "not there: missing.png"),
        ('<a href="missing.html">x</a>', "leads nowhere: missing.html"),
        ('<a href="sub/other.html#gone">x</a>', "leads to no heading: sub/other.html#gone"),
        ('<a href="#gone">x</a>', "leads to no heading: #gone"),
    ],
)
def test_a_fault_is_found(find_faults, added, fault):
    assert find_faults(GOOD + added) == [f"index.html: {fault}"]


def test_a_style_sheet_that_asks_elsewhere_is_found(find_faults):
    assert find_faults(style='@import url("https://a.b/c.css");') == [
        "style.css: fetched from elsewhere: https://a.b/c.css"
    ]
