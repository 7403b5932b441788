import json

import pytest

from regard.corpora.corpus import ReadReport
from regard.corpora.readers.dialogue_files import Dialogue, parse_dialogue, read_dialogues
from regard.errors import BadLineError, CorpusError


@pytest.fixture
def written(tmp_path):
    def write(*lines):
        path = tmp_path / "dialogues.jsonl"
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return str(path)

    return write


def test_a_line_has_turns_and_may_have_answers_and_an_id(written):
    lines = [
        {"turns": ["Hi.", "Hello\n you."]},
        {"context": ["Tired?"], "positive_responses": ["No.", "Yes."], "dialog_id": 7, "more": 1},
    ]
    path = written(json.dumps(lines[0]), "", json.dumps(lines[1]))
    assert list(read_dialogues(path, ReadReport())) == [
        Dialogue(("Hi.", "Hello you.")),
        Dialogue(("Tired?",), ("No.", "Yes."), "7"),
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("turns", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[1]", "expected a JSON object"),
        ('{"text": "Hi."}', "no turns.*its keys: 'text'"),
        ('{"turns": []}', "no turns"),
        ('{"turns": "Hi."}', "turns: expected a list of texts"),
        ('{"turns": ["Hi.", 5]}', "turns: expected a list of texts"),
        ('{"turns": ["Hi.", " "]}', "turns: text 2 of 2 is blank"),
        ('{"turns": ["Hi."]}', "one turn and no answers"),
    ],
)
def test_what_is_no_dialogue_is_said_with_its_line(written, line, message):
    good = '{"turns": ["Hi.", "Hello."]}'
    with pytest.raises(BadLineError, match=rf"dialogues\.jsonl: line 2: {message}"):
        list(read_dialogues(written(good, line), ReadReport()))
    report = ReadReport()
    assert len(list(read_dialogues(written(good, line, good), report, skip_bad=True))) == 2
    [remark] = report.messages()
    assert "skipped 1 lines that are not dialogues, the first at line 2" in remark


def test_lines_that_are_not_utf8_are_an_error_or_skipped(tmp_path):
    path, good = tmp_path / "a.jsonl", b'{"turns": ["Hi.", "Hello."]}\n'
    path.write_bytes(good + good.replace(b"Hi", b"H\xe4") + good)
    with pytest.raises(BadLineError, match=r"a\.jsonl: line 2: not UTF-8"):
        list(read_dialogues(str(path), ReadReport()))
    report = ReadReport()
    assert len(list(read_dialogues(str(path), report, skip_bad=True))) == 2
    [remark] = report.messages()
    assert "skipped 1 lines that are not UTF-8, the first at line 2" in remark


def test_an_id_that_is_null_is_none():
    assert parse_dialogue('{"turns": ["Hi.", "Hello."], "id": null}').id == ""
    assert parse_dialogue('{"turns": ["Hi.", "Hello."], "id": 0}').id == "0"


def test_an_empty_file_is_an_error(written):
    with pytest.raises(CorpusError, match="holds no dialogues"):
        list(read_dialogues(written(""), ReadReport()))


def test_half_a_surrogate_pair_is_kept_for_cleaning_to_see():
    assert parse_dialogue('{"turns": ["a", "\\ud800"]}').turns[1] == "\ud800"
