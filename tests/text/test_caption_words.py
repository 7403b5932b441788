import json
from pathlib import Path

import pytest

from regard.text.caption_words import caption_words

FIXTURE = Path(__file__).parents[1] / "evaluation" / "coco_captions.json"
WORDS = json.loads(FIXTURE.read_text(encoding="utf-8"))["words"]
"""Lines, and their words by Stanford's PTBTokenizer as pycocoevalcap 1.2 calls it."""


@pytest.mark.parametrize("line", WORDS)
def test_words_are_those_of_the_evaluation_of_coco(line):
    assert " ".join(caption_words(line)) == WORDS[line]


def test_nothing_has_no_words():
    assert caption_words("") == caption_words(" ... !") == []
