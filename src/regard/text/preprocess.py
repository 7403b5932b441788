"""A line of text -> token ids for a model, and notes for the user."""

import re
from collections.abc import Collection, Iterable, Sequence
from itertools import islice
from typing import NamedTuple

from regard.errors import SearchError
from regard.text.segmentation import InputSettings, Segment, Segments, segment
from regard.text.special_tokens import BYTE_PIECE, REPLACEMENT_CHARACTER, UNK
from regard.text.tokenizer import Tokenizer

CONTROL_CHARACTER = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f]")
"""All of Unicode's category Cc but the tab."""
UNUSUAL_SPACE = re.compile(r"[^\S ]")
SURROGATE = re.compile("[\ud800-\udfff]")  # half a character of UTF-16, or a byte that is not UTF-8
MAX_PARTS_PER_LINE = 1 << 20
SENTENCE_ENDS = (".", "!", "?", ";", "…", "。", "！", "？", "؟", "।")


class PartIndex(NamedTuple):
    """A part of one of several lines, both counted from 0."""

    line: int
    part: int


class TokenizedLine(NamedTuple):
    """A line ready to be translated, in one piece or in several."""

    parts: list[list[int]]  # token ids of each sentence, and of each part of an overlong one
    notes: list[str]  # warnings for the user
    texts: list[str]  # the text that each sentence's tokens were made from
    counts: list[int]  # of how many parts each sentence consists
    segments: Segments  # the sentences, and the text around them that is not translated

    def surfaces(self, tokenizer: Tokenizer) -> list[list[str]]:
        """For each part, the text that each of its tokens covers."""
        rest = (one for text in self.texts for one in tokenizer.surfaces(text))
        return [list(islice(rest, len(part))) for part in self.parts]


class PreparedText(NamedTuple):
    """A text, segmented and tokenized for each model of an ensemble."""

    text: str
    lines: Sequence[TokenizedLine]  # the same text in the tokens of each model
    protected: bool = False  # whether a sentence has URLs, addresses or placeholders to keep

    @property
    def num_tokens(self) -> int:
        """Source tokens of the first model."""
        return sum(map(len, self.lines[0].parts))


def part_id(line: int, part: int) -> int:
    """A number that identifies a part of a line in a search."""
    return line * MAX_PARTS_PER_LINE + part


def part_index(number: int) -> PartIndex:
    """The inverse of `part_id`."""
    return PartIndex(*divmod(number, MAX_PARTS_PER_LINE))


def require_texts(name: str, texts: Sequence[str]) -> None:
    """Raise a TypeError unless the argument called `name` is a sequence of `str`, not one `str`."""
    if isinstance(texts, str | bytes) or not all(isinstance(text, str) for text in texts):
        kinds = {type(text).__name__ for text in texts if not isinstance(text, str)}
        given = type(texts).__name__ if isinstance(texts, str | bytes) else ", ".join(sorted(kinds))
        wanted = f"{name} must be a list of texts (str)"
        raise TypeError(f"{wanted}, got {given}; for one text give [text]")


def sanitize(text: str) -> str:
    """`text` with U+FFFD for each surrogate, which UTF-8 cannot encode."""
    return SURROGATE.sub(REPLACEMENT_CHARACTER, text)


def tokenize_lines(
    texts: Sequence[str], tokenizer: Tokenizer, limit: int, settings: InputSettings | None = None
) -> list[TokenizedLine]:
    """The tokens of each text, segmented if there are `settings`, in parts up to `limit`."""
    segments = [
        Segments([Segment(text, translatable=True)])
        if settings is None
        else segment(text, settings)
        for text in texts
    ]
    sentences = [one.lines for one in segments]
    if settings is None or not settings.verbatim:
        sentences = [[_clean(line, tokenizer) for line in lines] for lines in sentences]
    ids = tokenizer.encode([sentence for some in sentences for sentence in some])
    unknown = _unknown_ids(ids, tokenizer)
    rest = iter(ids)
    return [
        _build_line(one, some, [next(rest) for _ in some], unknown, tokenizer, limit)
        for one, some in zip(segments, sentences, strict=True)
    ]


def _build_line(
    segments: Segments,
    sentences: list[str],
    ids: Sequence[Sequence[int]],
    unknown: Collection[int],
    tokenizer: Tokenizer,
    limit: int,
) -> TokenizedLine:
    """The line of some sentences, with notes on their tokens."""
    notes = []
    if lost := sum(part.text.count(REPLACEMENT_CHARACTER) for part in segments.parts):
        notes.append(f"has U+FFFD ({lost}) in place of unreadable characters; is it UTF-8?")
    if control := _count_control(segments.lines) - _count_control(sentences):
        notes.append(f"has control characters ({control}), which were read as spaces")
    if num_unknown := sum(token in unknown for own in ids for token in own):
        total = sum(map(len, ids))
        notes.append(f"not in the model's vocabulary: {num_unknown:,} of its {total:,} tokens")
    split = [
        split_long(own, tokenizer, limit) if sentence else []
        for sentence, own in zip(sentences, ids, strict=True)
    ]
    notes += [
        f"{len(own)} tokens are more than the model was trained for ({limit}); "
        f"translated in {len(parts)} parts"
        for own, parts in zip(ids, split, strict=True)
        if len(parts) > 1
    ]
    all_parts = [part for parts in split for part in parts]
    return TokenizedLine(all_parts, notes, sentences, list(map(len, split)), segments)


def _count_control(texts: Iterable[str]) -> int:
    return sum(len(CONTROL_CHARACTER.findall(text)) for text in texts)


def _clean(text: str, tokenizer: Tokenizer) -> str:
    """`text` without space at its ends; control characters and unknown white space are spaces."""
    return replace_unknown_spaces(CONTROL_CHARACTER.sub(" ", text), tokenizer).strip()


def replace_unknown_spaces(text: str, tokenizer: Tokenizer) -> str:
    """`text` with a plain space for each white space that the tokenizer does not know."""
    unusual = set(UNUSUAL_SPACE.findall(text))
    unknown = [space for space in unusual if UNK in tokenizer.encode([space])[0]]
    return text.translate(dict.fromkeys(map(ord, unknown), " "))


def tokenize_for_ensemble(
    texts: Sequence[str],
    tokenizers: Sequence[Tokenizer],
    limit: int,
    settings: InputSettings | None = None,
) -> list[list[TokenizedLine]]:
    """The lines of each model; an error if models split an over-long line differently."""
    lines = [tokenize_lines(texts, one, limit, settings) for one in tokenizers]
    for versions in zip(*lines, strict=True):
        if len({len(line.parts) for line in versions}) > 1:
            raise SearchError(
                "a line is too long for models with different source vocabularies to translate "
                f"together: more than {limit} tokens; shorten it, or use one model"
            )
    return lines


def split_long(ids: Sequence[int], tokenizer: Tokenizer, limit: int) -> list[list[int]]:
    """`ids` in parts of at most `limit`, each cut after a sentence or a word if that fits."""
    if limit < 1:
        raise ValueError(f"a part must have at least one token, got {limit=}")
    if len(ids) <= limit:
        return [list(ids)]
    words, pieces = tokenizer.word_ids(ids), tokenizer.pieces(ids)
    parts, first = [], 0
    while len(ids) - first > limit:
        last = _best_cut(words, pieces, first, first + limit)
        parts.append(list(ids[first:last]))
        first = last
    return [*parts, list(ids[first:])]


def encode_sources(
    tokenizer: Tokenizer, texts: Sequence[str], limit: int | None
) -> list[list[int]]:
    """The ids of each text; only the last `limit` of them if there are more."""
    ids = tokenizer.encode(texts)
    return ids if limit is None else [keep_newest(own, tokenizer, limit) for own in ids]


def keep_newest(ids: Sequence[int], tokenizer: Tokenizer, limit: int) -> list[int]:
    """At most the last `limit` ids, from the beginning of a word on if one begins among them."""
    first = len(ids) - limit
    if first <= 0:
        return list(ids)
    words = tokenizer.word_ids(ids)
    begins = (place for place in range(first, len(ids)) if words[place] != words[place - 1])
    return list(ids[next(begins, first) :])


def _best_cut(words: Sequence[int | None], pieces: Sequence[str], first: int, last: int) -> int:
    """The best place to cut in (first, last]."""
    between = [place for place in range(first + 1, last + 1) if words[place] != words[place - 1]]
    later_half = [place for place in between if place - first > (last - first) // 2]
    ends = [place for place in later_half if pieces[place - 1].endswith(SENTENCE_ENDS)]
    return max(ends or between or [last])


def _unknown_ids(lines: Iterable[Sequence[int]], tokenizer: Tokenizer) -> set[int]:
    """The ids of the lines that are UNK, or a byte of a character that has no piece."""
    ids = list(set().union(*lines))
    pairs = zip(ids, tokenizer.pieces(ids), strict=True)
    return {token for token, piece in pairs if token == UNK or BYTE_PIECE.fullmatch(piece)}
