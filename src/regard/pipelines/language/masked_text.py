"""Texts with masked places, as a masked language model reads them: `A [MASK] B`, `A ||| B`."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from regard.errors import SettingsError, TextError
from regard.inspection.recording.attention_map import Axis, AxisSegment, build_axis
from regard.settings import counted
from regard.text.special_tokens import BOS, EOS, UNK, UNK_SURFACE
from regard.text.tokenizer import Tokenizer

MASK = "[MASK]"  # how a masked place is written, and shown; a model's own mask token is read too
BETWEEN = "|||"  # separates the two texts of a pair
CLS, SEP = "[CLS]", "[SEP]"  # how the first token and the ends of texts are shown
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
    """The token of a masked place."""

    id: int
    name: str = MASK  # how the model's users write it, such as <mask>

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
        segments += [number] * (len(side.ids) + ends)
    most, shown = limit or MAX_READ_TOKENS, f" {BETWEEN} ".join(parts)
    if len(ids) > most:
        raise TextError(
            f"{_abbreviated(shown)}: a text of {len(ids):,} tokens, BOS and EOS counted; the model "
            f"reads at most {most:,}: give a shorter one"
        )
    begun = zip(starts, sides, strict=True)
    positions = [start + place for start, side in begun for place in side.masks]
    unknown = ids.count(UNK)
    notes = (f"unknown to the model: {counted(unknown, 'token')} of the text",) if unknown else ()
    places = _places(shown, positions, tokenizer, mask)
    axis = _axis(sides, tokenizer, mask.id)
    if len(sides) == 2:
        middle = starts[1]
        pair = AxisSegment("first", 0, middle), AxisSegment("second", middle, len(ids))
        axis = axis._replace(segments=pair)
    return MaskedText(shown, ids, segments, places, axis, notes)


def token_surface(tokenizer: Tokenizer, token: int) -> str:
    """The text of a token, with the space before it."""
    return tokenizer.decode([token, token])[len(tokenizer.decode([token])) :]


def _read_side(text: str, tokenizer: Tokenizer, mask: MaskToken) -> _Side:
    *stretches, last = mask.pattern.split(text)
    ids, masks, surfaces = list[int](), list[int](), list[str]()
    for number, stretch in enumerate([*stretches, last]):
        if number:
            masks.append(len(ids))
            ids.append(mask.id)
        is_last = number == len(stretches)
        spaced = tokenizer.pieces_hold_spaces and stretch.endswith(" ") and not is_last
        known = stretch[:-1] if spaced else stretch  # the masked token has the space
        if known:
            encode = tokenizer.encode_continued if number else tokenizer.encode
            found = encode([known])[0]
            ids += found
            surfaces += _unknown_surfaces(known, found, tokenizer)
        if not is_last:
            surfaces.append(f" {MASK}" if spaced else MASK)
    return _Side(ids, masks, surfaces)


def _unknown_surfaces(text: str, ids: Sequence[int], tokenizer: Tokenizer) -> list[str]:
    """The texts of the unknown tokens among `ids`, those of a stretch of text."""
    if UNK not in ids:
        return []
    surfaces = tokenizer.surfaces(text)
    if len(surfaces) != len(ids):  # after a masked place the stretch begins without a space
        return [UNK_SURFACE] * ids.count(UNK)
    return [surface or UNK_SURFACE for i, surface in zip(ids, surfaces, strict=True) if i == UNK]


def _places(
    text: str, positions: Sequence[int], tokenizer: Tokenizer, mask: MaskToken
) -> tuple[MaskedPlace, ...]:
    """The masked places of a text, which are at `positions` of its tokens."""
    places = []
    for position, found in zip(positions, mask.pattern.finditer(text), strict=True):
        before, after = text[: found.start()], text[found.end() :]
        before = before.removesuffix(" ") if tokenizer.pieces_hold_spaces else before
        places.append(MaskedPlace(position, before, after))
    return tuple(places)


def _axis(sides: Sequence[_Side], tokenizer: Tokenizer, mask_id: int) -> Axis:
    """The pieces and words of all sides, with the tokens at their ends."""
    pieces, words = [CLS], list[str]()
    word_of, units = list[int | None]([None]), list[int]()
    for number, side in enumerate(sides):
        plain = [UNK if i == mask_id else i for i in side.ids]
        axis = build_axis(plain, tokenizer, side.surfaces)
        pairs = zip(side.ids, axis.pieces, strict=True)
        ends = _num_ends(number, len(sides), tokenizer)
        pieces += [*(MASK if i == mask_id else piece for i, piece in pairs), *[SEP] * ends]
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
