"""A line as people write it -> what a model can read, and what to say about it."""

import re
from collections.abc import Collection, Iterable, Sequence
from itertools import islice
from typing import NamedTuple

from regard.errors import SearchError
from regard.text.segmentation import InputSettings, Segment, Segments, segment
from regard.text.special_tokens import UNK
from regard.text.tokenizer import Tokenizer

BYTE_PIECE = re.compile(r"<0x[0-9A-F]{2}>")
CONTROL_CHARACTER = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f]")
"""Of Unicode's category Cc all but the tab."""
UNUSUAL_SPACE = re.compile(r"[^\S ]")
REPLACEMENT_CHARACTER = "\ufffd"
"""Stands for what could not be read."""
SURROGATE = re.compile("[\ud800-\udfff]")
"""Half of a character of UTF-16, or a byte that is not UTF-8: no text of its own."""
MAX_PARTS_PER_LINE = 1 << 20
"""Of one line: what tells the parts of one line from those of the next."""
SENTENCE_ENDS = (".", "!", "?", ";", "…", "。", "！", "？", "؟", "।")


class PartIndex(NamedTuple):
    """A part of one of several lines, both counted from 0."""

    line: int
    part: int


class TokenizedLine(NamedTuple):
    """A line ready to be translated, in one piece or in several."""

    parts: list[list[int]]
    """Token ids; none where there is nothing to translate, several of a line of several sentences,
    or of one that is longer than the model can take."""
    notes: list[str]
    """What a person should know of it."""
    texts: list[str]
    """What the tokens of each sentence were made from."""
    counts: list[int]
    """How many of the parts each sentence is made of."""
    segments: Segments
    """The sentences, and what stays as it is around them."""

    def surfaces(self, tokenizer: Tokenizer) -> list[list[str]]:
        """The stretches of text that the tokens of each part are for."""
        rest = (one for text in self.texts for one in tokenizer.surfaces(text))
        return [list(islice(rest, len(part))) for part in self.parts]


class PreparedText(NamedTuple):
    """A text, segmented and tokenized for each model of an ensemble."""

    text: str
    lines: Sequence[TokenizedLine]
    """The same text in the tokens of each model."""
    protected: bool = False
    """Whether a sentence has URLs, e-mail addresses or placeholders that come back unchanged."""

    @property
    def num_tokens(self) -> int:
        """Source tokens of the first model."""
        return sum(map(len, self.lines[0].parts))


def part_id(line: int, part: int) -> int:
    """What a search knows a part of a line by: no other part of any line has the same."""
    return line * MAX_PARTS_PER_LINE + part


def part_index(number: int) -> PartIndex:
    """The part that a search knows by `number`."""
    return PartIndex(*divmod(number, MAX_PARTS_PER_LINE))


def sanitize(text: str) -> str:
    """`text` with U+FFFD in the place of what no file could hold."""
    return SURROGATE.sub(REPLACEMENT_CHARACTER, text)


def tokenize_line(
    text: str, tokenizer: Tokenizer, limit: int, settings: InputSettings | None = None
) -> TokenizedLine:
    """The tokens of `text`, in parts of at most `limit`."""
    return tokenize_lines([text], tokenizer, limit, settings)[0]


def tokenize_lines(
    texts: Sequence[str], tokenizer: Tokenizer, limit: int, settings: InputSettings | None = None
) -> list[TokenizedLine]:
    """The tokens of each text, in parts of at most `limit`; all are cut into pieces at once.

    With `settings` a text is taken apart into sentences and what stays as it is; without, it goes
    in whole.
    """
    segments = [
        Segments([Segment(text, says=True)]) if settings is None else segment(text, settings)
        for text in texts
    ]
    cleaned = [[_clean_sentence(text, tokenizer) for text in one.lines] for one in segments]
    ids = tokenizer.encode([plain.text for one in cleaned for plain in one])
    unknown = _unknown_ids(ids, tokenizer)
    rest = iter(ids)
    return [
        _build_line(one, plain, [next(rest) for _ in plain], unknown, tokenizer, limit)
        for one, plain in zip(segments, cleaned, strict=True)
    ]


class _CleanSentence(NamedTuple):
    """A sentence as it is cut into pieces, and how many control characters it had."""

    text: str
    control: int


def _clean_sentence(text: str, tokenizer: Tokenizer) -> _CleanSentence:
    plain, count = CONTROL_CHARACTER.subn(" ", text)
    return _CleanSentence(replace_unknown_spaces(plain, tokenizer).strip(), count)


def _build_line(
    segments: Segments,
    cleaned: Sequence[_CleanSentence],
    ids: Sequence[Sequence[int]],
    unknown: Collection[int],
    tokenizer: Tokenizer,
    limit: int,
) -> TokenizedLine:
    """The line of some sentences, with what there is to say of their tokens."""
    notes = []
    if lost := sum(part.text.count(REPLACEMENT_CHARACTER) for part in segments.parts):
        notes.append(f"holds U+FFFD ({lost}) for what could not be read; is it UTF-8?")
    if control := sum(one.control for one in cleaned):
        notes.append(f"holds control characters ({control}), which were taken for spaces")
    if num_unknown := sum(token in unknown for own in ids for token in own):
        total = sum(map(len, ids))
        notes.append(f"{num_unknown} of its {total} tokens are not in the model's vocabulary")
    sentences = [
        split_long(own, tokenizer, limit) if one.text else []
        for one, own in zip(cleaned, ids, strict=True)
    ]
    notes += [
        f"{len(own)} tokens are more than the model was trained for ({limit}); "
        f"translated in {len(parts)} parts"
        for own, parts in zip(ids, sentences, strict=True)
        if len(parts) > 1
    ]
    return TokenizedLine(
        [part for parts in sentences for part in parts],
        notes,
        [one.text for one in cleaned],
        list(map(len, sentences)),
        segments,
    )


def replace_unknown_spaces(text: str, tokenizer: Tokenizer) -> str:
    """`text` with a plain space for each white space that the tokenizer does not know.

    An unknown one, such as the no-break space before a French question mark, would glue the words
    at its sides into one that is unknown as well.
    """
    unusual = set(UNUSUAL_SPACE.findall(text))
    unknown = [letter for letter in unusual if UNK in tokenizer.encode([letter])[0]]
    return text.translate(dict.fromkeys(map(ord, unknown), " "))


def tokenize_for_ensemble(
    texts: Sequence[str],
    tokenizers: Sequence[Tokenizer],
    limit: int,
    settings: InputSettings | None = None,
) -> list[list[TokenizedLine]]:
    """The lines of each model; an error if it cuts an over-long one where others do not.

    Models that cut a line in unlike places cannot vote on its parts.
    """
    lines = [tokenize_lines(texts, one, limit, settings) for one in tokenizers]
    for versions in zip(*lines, strict=True):
        if len({len(line.parts) for line in versions}) > 1:
            raise SearchError(
                "a line is too long for models with unlike source vocabularies to translate "
                f"together: more than {limit} tokens; shorten it, or use one model"
            )
    return lines


def split_long(ids: Sequence[int], tokenizer: Tokenizer, limit: int) -> list[list[int]]:
    """`ids` in parts of at most `limit`, cut behind a sentence or a word where one ends in time."""
    if limit < 1:
        raise ValueError(f"a part must hold at least one token, got {limit=}")
    if len(ids) <= limit:
        return [list(ids)]
    words, pieces = tokenizer.word_ids(ids), tokenizer.pieces(ids)
    parts, first = [], 0
    while len(ids) - first > limit:
        last = _best_cut(words, pieces, first, first + limit)
        parts.append(list(ids[first:last]))
        first = last
    return [*parts, list(ids[first:])]


def _best_cut(words: Sequence[int | None], pieces: Sequence[str], first: int, last: int) -> int:
    """The best place to cut in (first, last]."""
    between = [place for place in range(first + 1, last + 1) if words[place] != words[place - 1]]
    later_half = [place for place in between if place - first > (last - first) // 2]
    ends = [place for place in later_half if pieces[place - 1].endswith(SENTENCE_ENDS)]
    return max(ends or between or [last])


def _unknown_ids(lines: Iterable[Sequence[int]], tokenizer: Tokenizer) -> set[int]:
    """Which ids of the lines stand for nothing that the vocabulary has a piece for."""
    ids = list(set().union(*lines))
    return {
        token
        for token, piece in zip(ids, tokenizer.pieces(ids), strict=True)
        if token == UNK or BYTE_PIECE.fullmatch(piece)
    }
