"""Files of dialogues in JSON Lines: a dialogue, or a history with several answers, on each line."""

import json
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

from regard.corpora.corpus import ReadReport
from regard.corpora.readers.pair_files import file_label, read_or_skip_lines
from regard.corpora.source import RawRow, good_rows

TURN_KEYS = ("turns", "context", "dialog")
ANSWER_KEYS = ("answers", "responses", "positive_responses")
ID_KEYS = ("dialogue", "dialog_id", "id")
"""Accepted JSON keys of a line's turns, answers and dialogue; the first of each is our own."""
EXAMPLE_LINE = '{"turns": ["Are you tired?"], "answers": ["Not really.", "Do I look tired?"]}'


class Dialogue(NamedTuple):
    """Alternating turns of two speakers, and the possible answers to them, if given."""

    turns: tuple[str, ...]
    answers: tuple[str, ...] = ()  # each an answer to all turns; none: the turns answer each other
    id: str = ""  # dialogues with the same id are never in two splits


def read_dialogues(path: str, report: ReadReport, *, skip_bad: bool = False) -> Iterator[Dialogue]:
    """The dialogues of a file, in their order; blank lines are skipped.

    White space within a text becomes single spaces. A line that is not a dialogue is an error, or
    is counted in `report` with `skip_bad`.
    """
    lines = read_or_skip_lines(path, report, skip_bad=skip_bad)
    rows = (
        RawRow(number, partial(parse_dialogue, line))
        for number, line in enumerate(lines, 1)
        if line is not None and line.strip()
    )
    return good_rows(
        file_label(path),
        rows,
        report,
        skip_bad=skip_bad,
        bad=lambda _: "lines that are not dialogues",
        empty=f"dialogues; write one on each line, such as {EXAMPLE_LINE}",
    )


def parse_dialogue(line: str) -> Dialogue:
    """The dialogue of one line; a `ValueError` says what is wrong with it."""
    try:
        raw = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not JSON: {error}") from None
    if not isinstance(raw, dict):
        raise ValueError(f"expected a JSON object, such as {EXAMPLE_LINE}")
    turns, answers = (_read_texts(raw, keys) for keys in (TURN_KEYS, ANSWER_KEYS))
    if not turns:
        found = ", ".join(map(repr, raw)) or "none"
        raise ValueError(f"no turns: expected a list of texts called 'turns'; its keys: {found}")
    if len(turns) < 2 and not answers:
        raise ValueError("one turn and no answers: nothing to learn from; add 'answers'")
    number = next((raw[key] for key in ID_KEYS if raw.get(key) is not None), "")
    return Dialogue(turns, answers, str(number))


def _read_texts(raw: dict[str, Any], keys: tuple[str, ...]) -> tuple[str, ...]:
    """The texts under one of the keys, none of them blank; nothing if there is no such key."""
    key = next((key for key in keys if key in raw), None)
    if key is None:
        return ()
    texts = raw[key]
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise ValueError(f"{key}: expected a list of texts")
    clean = tuple(" ".join(text.split()) for text in texts)
    if not all(clean):
        raise ValueError(f"{key}: text {clean.index('') + 1} of {len(clean)} is blank")
    return clean
