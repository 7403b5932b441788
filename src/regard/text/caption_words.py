"""The words of a caption as the evaluation of COCO captions counts them.

They are split by the rules of the Penn Treebank (Stanford's PTBTokenizer 3.4.1) in lower case,
without punctuation (Chen et al. 2015, section 3.1). This file has the rules that English captions
need.
"""

import re
from functools import lru_cache

CACHED_CAPTIONS = 1 << 16  # the same references are split at each validation, by each metric
_QUOTES = str.maketrans({"’": "'", "‘": "'", "“": '"', "”": '"', "–": " -- ", "—": " -- "})
_BRACKETS = {"(": "-lrb-", ")": "-rrb-", "[": "-lsb-", "]": "-rsb-", "{": "-lcb-", "}": "-rcb-"}
"""Brackets as words, which the evaluation keeps: it drops them in capital letters only."""
_DROPPED = {*"\"'`.?!,:;-", "--", "...", "''", "``"}
_ABBREVIATIONS = "mr|mrs|ms|dr|st|jr|sr|vs|mt|ft|co|inc|no"
_CLITICS = re.compile(r"(?<=[a-z])(n't|'(?:s|m|d|re|ve|ll))(?![\w'])")
_TWO_WORDS = re.compile(r"\b(can)(not)\b|\b(gon|wan)(na)\b|\b(got)(ta)\b|\b(lem|gim)(me)\b")
_WORD = re.compile(
    rf"""(?:[a-z]\.){{2,}}                  # u.s.
    | (?:{_ABBREVIATIONS}|[a-z])\.(?=\s+\S) # mr. before a name
    | n't(?!\w) | '(?:s|m|d|re|ve|ll)(?!\w) | 'n' | o'clock
    | \d+(?:[.,:/]\d+)+(?:-\w+)*           # 1,000-year-old
    | \w+(?:[-/_.@]\w+)*                   # t-shirt, black/white
    | -{{2,}} | \.{{3}}
    | \S""",
    re.VERBOSE,
)


def caption_words(text: str) -> list[str]:
    """The words of a caption, in lower case, without punctuation."""
    return list(_cut(text))


@lru_cache(maxsize=CACHED_CAPTIONS)
def _cut(text: str) -> tuple[str, ...]:
    lowered = text.lower().translate(_QUOTES)
    split = _TWO_WORDS.sub(lambda found: " ".join(filter(None, found.groups())), lowered)
    words = _WORD.findall(_CLITICS.sub(r" \1", split))
    return tuple(_BRACKETS.get(word, word) for word in words if word not in _DROPPED)
