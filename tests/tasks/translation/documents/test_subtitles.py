import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.tasks.translation.documents.subtitles import CUE_BREAK, MAX_LINE_WIDTH, read_subtitles

SRT = """\ufeff1\r
00:00:01,000 --> 00:00:02,500 X1:40\r
{\\an8}<i>Jane visite</i>\r
l'Afrique.\r
\r
7\r
00:00:03,000 --> 00:00:04,000\r
- Bonjour.\r
- Salut!\r
\r
\r
2\r
00:00:05,000 --> 00:00:06,000\r
♪\r
\r
3\r
00:00:07,000 --> 00:00:08,000\r
Fin"""
VTT = """WEBVTT - un titre
X-TIMESTAMP-MAP=LOCAL:00:00:00.000

STYLE
::cue(b) { color: red }

NOTE Ceci n'est pas traduit.

intro
00:01.000 --> 00:04.000 align:start position:10%
<v Roger Bingham>Nous <c.loud>dormons</c> &amp; <00:02.000>dansons.

00:05.000 --> 00:06.000
Oui.
"""


def translated(text, translate):
    document = read_subtitles(text)
    return document.join(translate(document.lines))


def same(lines):
    return list(lines)


def shout(lines):
    return [line.upper().replace(CUE_BREAK.upper(), CUE_BREAK) for line in lines]


def srt(*cues):
    return "".join(
        f"{n}\n00:00:{n:02},000 --> 00:00:{n:02},900\n{cue}\n\n" for n, cue in enumerate(cues, 1)
    )


def new_lines(document):
    """The lines of each cue of a file that `srt` made."""
    return [block.split("\n")[2:] for block in document.strip().split("\n\n")]


def test_the_texts_of_cues_are_found():
    assert read_subtitles(SRT).lines == [
        "{\\an8}<i>Jane visite</i> l'Afrique.",
        "Bonjour.",
        "Salut!",
        "♪",
        "Fin",
    ]
    assert read_subtitles(VTT).lines == [
        "<v Roger Bingham>Nous <c.loud>dormons</c> &amp; <00:02.000>dansons.",
        "Oui.",
    ]


def test_all_but_texts_is_copied():
    assert translated(SRT, same) == SRT
    assert translated(VTT, same) == VTT
    assert "un titre" in translated(VTT, shout)
    assert "- BONJOUR.\r\n- SALUT!\r\n" in translated(SRT, shout)


TIMES = ["00:00:01,000 --> 00:00:02,000", "00:01.000 --> 00:02.000 a:b", "-->", "1", "99999"]
ENDS = ["\n", "\r\n", "\n\n", " "]
SAID = ["mot", "Un mot.", "<i>", "</i>", "- ", "WEBVTT", "NOTE", "{\\an8}", "\ufeff"]


@given(st.lists(st.sampled_from([*TIMES, *ENDS, *SAID])).map("".join))
def test_nothing_but_words_is_touched(text):
    document = read_subtitles(text)
    answer = document.join(document.lines)
    kept = text if "-->" not in "".join(document.lines) else answer
    assert answer.split() == kept.split()
    assert answer.count("\n\n") == text.count("\n\n")


def test_translated_lines_are_wrapped():
    [lines] = new_lines(translated(srt("un\ndeux"), lambda _: ["one two three four"]))
    assert lines == ["one two", "three four"]
    [lines] = new_lines(translated(srt("un"), lambda _: ["word " * 16]))
    assert len(lines) == 2
    assert max(map(len, lines)) <= MAX_LINE_WIDTH
    [lines] = new_lines(translated(srt("un\ndeux"), lambda _: ['<font color="a b">one</font> two']))
    assert lines == ['<font color="a b">one</font>', "two"]


def test_fewer_words_than_lines_leave_no_blank_line():
    assert new_lines(translated(srt("Un\ndeux.", "Trois."), lambda _: ["one", "two"])) == [
        ["one"],
        ["two"],
    ]


def test_a_sentence_goes_on_in_the_next_cue():
    document = srt("Elle ne", "la visite", "pas. Jamais", "Oui")
    assert read_subtitles(document).lines == [
        f"Elle ne {CUE_BREAK} la visite {CUE_BREAK} pas. Jamais",
        "Oui",
    ]
    answer = translated(document, lambda _: [f"She {CUE_BREAK} never {CUE_BREAK}visits it.", "Yes"])
    assert new_lines(answer) == [["She"], ["never"], ["visits it."], ["Yes"]]


def test_no_cue_is_left_without_words():
    answer = translated(srt("Elle ne la", "visite pas"), lambda _: [f"{CUE_BREAK}She never does"])
    assert new_lines(answer) == [["She never"], ["does"]]


@pytest.mark.parametrize("cues", [("Fin.", "puis"), ("Un", "Deux"), ("un", "- deux"), ("un", "…")])
def test_sentences_that_end_in_a_cue_are_not_joined(cues):
    assert CUE_BREAK not in "".join(read_subtitles(srt(*cues)).lines)


def test_no_more_than_some_cues_are_joined():
    assert [line.count(CUE_BREAK) for line in read_subtitles(srt(*["mot"] * 9)).lines] == [3, 3, 0]


def test_numbers_and_blank_lines_may_be_missing():
    document = "00:00:01,000 --> 00:00:02,000\nUn.\n5\n00:00:02,000 --> 00:00:03,000\nDeux.\n"
    assert read_subtitles(document).lines == ["Un.", "Deux."]
    assert translated(document, same) == document


def test_a_dash_on_a_line_of_its_own_stays():
    assert new_lines(translated(srt("-\nmot"), shout)) == [["-", "MOT"]]


def test_a_model_cannot_make_times():
    answer = translated(srt("un"), lambda _: ["a --> b\n\nc"])
    assert new_lines(answer) == [["a -> b c"]]


@pytest.mark.parametrize("document", ["", "\n\n", "WEBVTT", "no subtitles at all", "\ufeff"])
def test_nothing_to_translate(document):
    assert translated(document, same) == document
