"""Texts with masked places, as a masked language model reads them: `A [MASK] B`, `A ||| B`."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from regard.errors import SettingsError, TextError
from regard.inspection.recording.attention_map import Axis, AxisSegment, build_axis
from regard.settings import counted
from regard.tasks.families.text_look import BETWEEN
from regard.text.special_tokens import BOS, EOS, UNK, UNK_SURFACE
from regard.text.tokenizer import Tokenizer

MASK = "[MASK]"  # how a masked place is written; a model's own mask token is read too
MAX_READ_TOKENS = 2048  # of a text, if the model itself has no limit


class MaskedPlace(NamedTuple):
    """A masked place of a text."""

    position: int  # among the tokens
    before: str  # the text up to it, without the space that its token has
    after: str

    def filled(self, surface: str) -> str:
        """The text with `surface`, the text of a token, in the place."""
        return self.before + (surface if self.before else surface.removeprefix(" ")) + self.after


class _Side(NamedTuple):
    """A text, or one of a pair, in tokens."""

    ids: list[int]
    masks: list[int]  # places of the masked ones
    spans: list[tuple[int, int]]  # the part of the text that each stands for, with its space
    surfaces: list[str]  # of unknown and masked tokens, in order, with the space before them


class MaskedText(NamedTuple):
    """A text in tokens, between BOS and EOS; both texts of a pair end in EOS."""

    text: str
    ids: list[int]
    segments: list[int]
    places: tuple[MaskedPlace, ...]
    axis: Axis  # its pieces and words
    notes: tuple[str, ...] = ()


class MaskToken(NamedTuple):
    """The token of a masked place, and how a model's users write it and the ends of texts."""

    id: int
    name: str = MASK
    ends: tuple[str, str] = ("[CLS]", "[SEP]")

    @property
    def spellings(self) -> tuple[str, ...]:
        """How it may be written."""
        return tuple(dict.fromkeys((MASK, self.name)))

    @property
    def pattern(self) -> re.Pattern[str]:
        """The pattern that finds it in a text."""
        return re.compile("|".join(map(re.escape, self.spellings)))


def read_masked_text(
    texts: Sequence[str], tokenizer: Tokenizer, mask: MaskToken, limit: int | None
) -> MaskedText:
    """A text or a pair of texts, which may also be given as one text with `|||` between them."""
    parts = texts[0].split(BETWEEN) if len(texts) == 1 else list(texts)
    if len(parts) > 2:
        raise SettingsError(
            f"{len(parts)} texts: give one, in quotes, or two for a pair, or both in one with "
            f"{BETWEEN} between them"
        )
    parts = parts if len(parts) == 1 else [part.strip() for part in parts]
    sides = [_read_side(part, tokenizer, mask) for part in parts]
    ids, segments, starts = [BOS], [0], list[int]()
    for number, side in enumerate(sides):
        starts.append(len(ids))
        ends = _num_ends(number, len(sides), tokenizer)
        ids += [*side.ids, *[EOS] * ends]
        segments += [number * tokenizer.pair_segments] * (len(side.ids) + ends)
    most, shown = limit or MAX_READ_TOKENS, f" {BETWEEN} ".join(parts)
    if len(ids) > most:
        raise TextError(
            f"{_abbreviated(shown)}: a text of {len(ids):,} tokens, BOS and EOS counted; the model "
            f"reads at most {most:,}: give a shorter one"
        )
    begun = zip(starts, sides, strict=True)
    positions = [start + place for start, side in begun for place in side.masks]
    begins = 0, len(shown) - len(parts[-1])  # of the texts
    spans = (
        (begin + first, begin + end)
        for begin, side in zip(begins, sides, strict=False)
        for first, end in side.spans
    )
    unknown = ids.count(UNK)
    notes = (f"unknown to the model: {counted(unknown, 'token')} of the text",) if unknown else ()
    places = tuple(
        MaskedPlace(position, shown[:first], shown[end:])
        for position, (first, end) in zip(positions, spans, strict=True)
    )
    axis = _axis(sides, tokenizer, mask)
    if len(sides) == 2:
        middle = starts[1]
        pair = AxisSegment("first", 0, middle), AxisSegment("second", middle, len(ids))
        axis = axis._replace(segments=pair)
    return MaskedText(shown, ids, segments, places, axis, notes)


def token_surface(tokenizer: Tokenizer, token: int) -> str:
    """The text of a token, with the space before it."""
    return tokenizer.decode([token, token])[len(tokenizer.decode([token])) :]


def _read_side(text: str, tokenizer: Tokenizer, mask: MaskToken) -> _Side:
    if tokenizer.encode([mask.name]) == [[mask.id]]:
        return _read_spelled(text, tokenizer, mask)
    ids, masks, surfaces = list[int](), list[int](), list[str]()
    spans, begin = list[tuple[int, int]](), 0
    for found in [*mask.pattern.finditer(text), None]:
        stretch = text[begin : found.start() if found else None]
        spaced = tokenizer.pieces_hold_spaces and stretch.endswith(" ") and found is not None
        known = stretch[:-1] if spaced else stretch  # the masked token has the space
        if known:
            encode = tokenizer.encode_continued if begin else tokenizer.encode
            tokens = encode([known])[0]
            ids += tokens
            surfaces += _unknown_surfaces(known, tokens, tokenizer)
        if found is not None:
            masks.append(len(ids))
            ids.append(mask.id)
            spans.append((found.start() - spaced, found.end()))
            surfaces.append(f" {mask.name}" if spaced else mask.name)
            begin = found.end()
    return _Side(ids, masks, spans, surfaces)


def _read_spelled(text: str, tokenizer: Tokenizer, mask: MaskToken) -> _Side:
    """By a tokenizer that reads its own mask token, and takes the spaces around it or leaves them
    as its file says.
    """
    found = [*mask.pattern.finditer(text)]
    spelled = mask.pattern.sub(lambda _: mask.name, text)
    [ids], surfaces = tokenizer.encode([spelled]), tokenizer.surfaces(spelled)

    def given(index: int) -> int:
        """The index in `text` of one in `spelled`."""
        longer = 0
        for one in found:
            if one.start() + longer < index:
                longer += len(mask.name) - len(one.group())
        return index - longer

    masks, spans, shown, end = list[int](), list[tuple[int, int]](), list[str](), 0
    for place, (token, surface) in enumerate(zip(ids, surfaces, strict=True)):
        begin, end = end, end + len(surface)
        if token == mask.id:
            masks.append(place)
            spans.append((given(begin), given(begin + len(surface.rstrip()))))
        if token in (UNK, mask.id):
            shown.append(surface or UNK_SURFACE)
    return _Side(ids, masks, spans, shown)


def _unknown_surfaces(text: str, ids: Sequence[int], tokenizer: Tokenizer) -> list[str]:
    """The texts of the unknown tokens among `ids`, those of a stretch of text."""
    if UNK not in ids:
        return []
    surfaces = tokenizer.surfaces(text)
    if len(surfaces) != len(ids):  # after a masked place the stretch begins without a space
        return [UNK_SURFACE] * ids.count(UNK)
    return [surface or UNK_SURFACE for i, surface in zip(ids, surfaces, strict=True) if i == UNK]


def _axis(sides: Sequence[_Side], tokenizer: Tokenizer, mask: MaskToken) -> Axis:
    """The pieces and words of all sides, with the tokens at their ends."""
    pieces, words = [mask.ends[0]], list[str]()
    word_of, units = list[int | None]([None]), list[int]()
    for number, side in enumerate(sides):
        plain = [UNK if i == mask.id else i for i in side.ids]
        axis = build_axis(plain, tokenizer, side.surfaces)
        pairs = zip(side.ids, axis.pieces, strict=True)
        ends = _num_ends(number, len(sides), tokenizer)
        pieces += [mask.name if i == mask.id else piece for i, piece in pairs]
        pieces += [mask.ends[1]] * ends
        word_of += [None if one is None else one + len(words) for one in axis.word_of]
        word_of += [None] * ends
        units += axis.sizes
        words += axis.words
    return Axis(tuple(pieces), tuple(words), tuple(word_of), tuple(units))


def _num_ends(number: int, sides: int, tokenizer: Tokenizer) -> int:
    """How many EOS follow the text `number` of `sides` texts."""
    return tokenizer.separators if number + 1 < sides else 1


def _abbreviated(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:60]}…")
