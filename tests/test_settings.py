from typing import Annotated

import pytest
from pydantic import Field, ValidationError

from regard.settings import (
    Settings,
    Spelling,
    abbreviate,
    describe,
    escape_control,
    expectation,
    format_times,
)


class Few(Settings):
    count: int = Field(default=1, gt=0, le=9)
    names: list[str] = Field(default=[], max_length=2)
    share: float = Field(default=0.5, ge=0, lt=1)
    loud: bool = False
    seed: int = 1


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"count": 0}, "must be more than 0"),
        ({"count": 10}, "must be at most 9"),
        ({"count": 1.5}, "must be a whole number"),
        ({"seed": 10**60}, "must be at most 9,223,372,036,854,775,807"),
        ({"names": "a"}, "must be a list"),
        ({"names": ["a"] * 3}, "must hold 2 or fewer"),
        ({"names": [1]}, "must be a text"),
        ({"share": -1}, "must be at least 0.0"),
        ({"share": 1}, "must be less than 1.0"),
        ({"share": "x"}, "must be a number"),
        ({"share": float("inf")}, "must be a finite number"),
        ({"loud": "x"}, "must be true or false"),
        ({"size": 1}, "is not known"),
    ],
)
def test_what_was_expected_is_said_in_our_words(given, expected):
    with pytest.raises(ValidationError) as wrong:
        Few.model_validate(given)
    assert expectation(wrong.value.errors()[0]) == expected


def test_what_was_found_is_said_in_few_words():
    assert describe(0) == "0"
    assert describe("pdf") == "'pdf'"
    assert [describe(value) for value in (None, True, False)] == ["null", "true", "false"]
    assert describe([1, 2]) == "a list of 2"
    assert describe({"a": 1}) == "a group of named values"
    assert describe("x" * 5000) == "a text of 5,000 characters"


def test_control_characters_are_escaped():
    assert escape_control("a\tb\x1b[31m\n é\u200d") == r"a\tb\x1b[31m\n é" + "\u200d"
    assert escape_control("a\n\t", kept="\n") == "a\n" + r"\t"
    assert abbreviate("\x1bc") == r"\x1bc"


def test_counts_for_people():
    assert [format_times(number) for number in (0.25, 9.96, 1000.0)] == ["0.2", "10", "1,000"]


def test_a_spelling_says_in_words_what_a_text_must_be():
    class Named(Settings):
        name: Annotated[str, Spelling("[a-z]+", "must be small letters alone")]

    assert Named(name="legal").name == "legal"
    for wrong in ("lo ra", "legal\n", ""):
        with pytest.raises(ValidationError) as caught:
            Named(name=wrong)
        assert expectation(caught.value.errors()[0]) == "must be small letters alone"
    assert Named.model_json_schema()["properties"]["name"]["pattern"] == "^[a-z]+$"
