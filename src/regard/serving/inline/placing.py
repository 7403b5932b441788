"""Markup of a text -> its translation with the same markup, by what each word was made from.

Two tags wrap the words of the translation that come, for the most part, from the words that they
wrapped; where those stand apart, the stretch that holds most of them and least of others. Tags
within tags stay within them, and tags beside each other do not overlap. What stands between words
goes where most words are on the same side of it as before; but a tag that nothing closes stays
behind those of its name that nothing opens, or the two would become a pair, and a script without
an end stays behind everything.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from regard.serving.inline.plain import Node, Standing, Wrapped
from regard.serving.inline.scanning import RAW
from regard.serving.inline.sides import Along, Blocks, Side
from regard.text.sentences import Span

HALF = 0.5
"""A word belongs to the tags around more than this share of what it comes from."""
FLOOR = 0.1
"""Tags without such a word wrap the likeliest one, if its share is at least this."""
_ALIKE = {
    **dict.fromkeys("«»“”„‟‘’‚‛‹›「」『』'", '"'),
    **{"…": ".", "。": ".", "！": "!", "？": "?", "，": ",", "；": ";", "：": ":"},
}
"""Marks that one language writes for those of another."""


class _Item(NamedTuple):
    """What is written in the place of some characters, of none perhaps."""

    first: int
    last: int
    order: int
    text: str


@dataclass
class _Room:
    """A part of the translation, and what is taken of it."""

    span: Span
    words: range
    anchors: set[int] = field(default_factory=set)
    """The best word of each pair, which no other may take."""
    taken: dict[int, int] = field(default_factory=dict)
    """The words that are taken, and the first of those that are taken with each."""
    spans: list[Span] = field(default_factory=list)
    """The characters that are taken, in their order."""

    def is_free(self, word: int) -> bool:
        """Whether any pair may have the word."""
        return word not in self.anchors and word not in self.taken

    def take(self, first: int, last: int) -> Span:
        """What is free of the characters from `first` to before `last`; now it is taken."""
        place = bisect_left(self.spans, (first, last))
        if place:
            first = max(first, self.spans[place - 1].last)
        if place < len(self.spans):
            last = min(last, self.spans[place].first)
        span = Span(first, max(first, last))
        if span.first < span.last:
            insort(self.spans, span)
        return span

    def outside(self, place: int) -> int:
        """The place, or the end of the characters that it is in the midst of."""
        number = bisect_right(self.spans, (place,)) - 1
        spans = self.spans[max(0, number) : number + 1]
        return next((one.last for one in spans if one.first < place < one.last), place)


@dataclass(frozen=True)
class Placer:
    """Writes a translation with the markup of its source."""

    source: Side
    target: Side
    blocks: Blocks
    write: Callable[[int, int], str]
    """What stands in the output for the characters of the target between two places."""
    spaced: bool = False
    """Whether what stands alone gets spaces around it, even where it had none."""

    def place(self, nodes: Sequence[Node]) -> str:
        """The whole translation with all markup in it."""
        return self._render(nodes, Span(0, len(self.target.text)))

    def _render(self, nodes: Sequence[Node], span: Span) -> str:
        """A part of the translation with the markup that belongs there."""
        room = _Room(span, self.target.within(*span))
        pairs = [node for node in nodes if isinstance(node, Wrapped)]
        spans = dict(zip(map(id, pairs), self._wrap(pairs, room), strict=True))
        items = []
        floors: dict[str, int] = {}  # behind what may close tags of a name
        for order, node in enumerate(nodes):
            if isinstance(node, Wrapped):
                inner = spans[id(node)]
                text = f"{node.opening}{self._render(node.inside, inner)}{node.closing}"
                items.append(_Item(*inner, order, text))
            else:
                ends = (floors.get(name, 0) for name in node.opens)
                floor = span.last if node.opens & RAW else max(ends, default=0)
                items.append(self._stand(node, order, room, floor))
            for name in node.closes:
                floors[name] = max(floors.get(name, 0), items[-1].last)
        written: list[str] = []
        place = span.first
        for item in sorted(items):
            written += self.write(place, max(place, item.first)), item.text
            place = max(place, item.last)
        return "".join(written) + self.write(place, span.last)

    def _wrap(self, pairs: Sequence[Wrapped], room: _Room) -> list[Span]:
        """What each pair wraps; none of it overlaps."""
        sources = [self.source.touched(pair.first, pair.last) for pair in pairs]
        shares = [self.blocks.shares(source, room.words) for source in sources]
        room.anchors.update(best for best in map(_best, shares) if best is not None)
        return [
            self._wrap_marks(pair, room)
            if not source
            else self._wrap_letters(pair, source, share, room)
            or self._wrap_words(pair, source, share, room)
            for pair, source, share in zip(pairs, sources, shares, strict=True)
        ]

    def _wrap_words(self, pair: Wrapped, source: range, share: Along, room: _Room) -> Span:
        """The words that come from what the pair wrapped, and marks as it had them."""
        words = _stretch(share, room)
        if not words:
            place = self._gap(source.start, room)
            return room.take(place, place)
        room.taken.update(dict.fromkeys(words, words.start))
        first = self.target.words[words.start].first
        last = self.target.words[words.stop - 1].last
        first -= self._marks_before(pair, source.start, words.start)
        last += self._marks_behind(pair, source.stop, words.stop)
        return room.take(max(first, room.span.first), min(last, room.span.last))

    def _wrap_letters(self, pair: Wrapped, source: range, share: Along, room: _Room) -> Span | None:
        """For tags within a word that the translation spells alike, the same letters of it."""
        word = self.source.words[source.start]
        if len(source) > 1 or (pair.first <= word.first and pair.last >= word.last):
            return None
        if not share.values.any():
            return None
        best = self.target.words[share.first + int(share.values.argmax())]
        here, there = self.source.text[slice(*word)], self.target.text[slice(*best)]
        if here.casefold() != there.casefold() or len(here) != len(there):
            return None
        step = best.first - word.first
        return room.take(max(pair.first, word.first) + step, min(pair.last, word.last) + step)

    def _wrap_marks(self, pair: Wrapped, room: _Room) -> Span:
        """For tags around marks alone, the same marks where they are expected; or nothing."""
        number = self._seam(len(self.source.touched(0, pair.first)), room)
        first, last = self.target.gap(number)
        first, last = max(first, room.span.first), min(last, room.span.last)
        wanted = _alike(self.source.text[pair.first : pair.last])
        found = _alike(self.target.text[first:last]).find(wanted)
        if found < 0:
            place = min(max(self.target.seam(number).first, first), last)
            return room.take(place, place)
        return room.take(first + found, first + found + len(wanted))

    def _marks_before(self, pair: Wrapped, source: int, target: int) -> int:
        """How many marks before the target word go with it, as before the source word."""
        text, word = self.source.text, self.source.words[source].first
        own = text[pair.first : word]
        head = self.target.text[self.target.seam(target).last : self.target.words[target].first]
        if not own.strip():
            return 0
        if pair.first == 0 or text[pair.first - 1].isspace():
            return len(head)
        return _common(_alike(head[::-1]), set(_alike(own)))

    def _marks_behind(self, pair: Wrapped, source: int, target: int) -> int:
        """How many marks behind the last target word go with it, as behind the source word."""
        text, word = self.source.text, self.source.words[source - 1].last
        own = text[word : pair.last]
        tail = self.target.text[self.target.gap(target).first : self.target.seam(target).first]
        if not own.strip():
            return 0
        if pair.last == len(text) or text[pair.last].isspace():
            return len(tail)
        return _common(_alike(tail), set(_alike(own)))

    def _seam(self, number: int, room: _Room) -> int:
        """The gap of the translation for the source's gap before word `number`."""
        along = self.blocks.seams(number)
        best, values = along.first, along.values
        ranked = sorted(range(len(values)), key=lambda i: (values[i], i), reverse=True)
        for place in (best + i for i in ranked):
            inside = room.words.start <= place <= room.words.stop
            if inside and room.taken.get(place, -1) != room.taken.get(place - 1, -2):
                return place
        return min(max(best + ranked[0], room.words.start), room.words.stop)

    def _gap(self, number: int, room: _Room) -> int:
        place = self.target.seam(self._seam(number, room)).last
        return room.outside(min(max(place, room.span.first), room.span.last))

    def _stand(self, node: Standing, order: int, room: _Room, floor: int) -> _Item:
        """Markup that stands alone: as near to the words and marks beside it as it was.

        Not before `floor`, though.
        """
        text, number = self.source.text, len(self.source.touched(0, node.place))
        here, place = self.source.seam(number), self._seam(number, room)
        there, gap = self.target.seam(place), self.target.gap(place)
        last = None
        if node.place < self.source.gap(number).first or text[node.place : here.first].strip():
            first = gap.first  # within a word, or before marks that are written onto it
        elif text[here.last : node.place].strip():
            first = gap.last
        elif node.before or node.after:
            first = there.first if node.after else there.last
        else:
            first, last = there  # it takes the place of the space
        first = room.outside(min(max(first, room.span.first, floor), room.span.last))
        if last is not None and first < last <= room.span.last and not self.spaced:
            span = room.take(first, last)
            return _Item(*span, order, node.raw)
        text = self.target.text
        before = node.before and first > room.span.first and not text[first - 1].isspace()
        after = node.after and first < room.span.last and not text[first].isspace()
        before, after = before or self.spaced, after or self.spaced
        return _Item(first, first, order, f"{' ' * before}{node.raw}{' ' * after}")


def _best(share: Along) -> int | None:
    """The word that the largest share of comes from there, if it is most of the word."""
    if not len(share.values) or share.values.max() <= HALF:
        return None
    return share.first + int(share.values.argmax())


def _stretch(share: Along, room: _Room) -> range:
    """The free words whose shares above a half outweigh those below, around the best of them."""
    own = _best(share)
    free = [
        (value, -number)
        for number, value in enumerate(share.values.tolist(), share.first)
        if room.is_free(number) or (number == own and number not in room.taken)
    ]
    value, minus = max(free, default=(0.0, 0))
    if value < FLOOR:
        return range(0)
    best = -minus
    ends = []
    for step in (-1, 1):
        end, gain, most = best, 0.0, 0.0
        place = best + step
        while room.is_free(place) and 0 <= place - share.first < len(share.values):
            gain += float(share.values[place - share.first]) - HALF
            if gain > most:
                end, most = place, gain
            place += step
        ends.append(end)
    return range(ends[0], ends[1] + 1)


def _alike(marks: str) -> str:
    return "".join(_ALIKE.get(mark, mark) for mark in marks)


def _common(marks: str, wanted: set[str]) -> int:
    """How many of the first marks are wanted."""
    return next((i for i, mark in enumerate(marks) if mark not in wanted), len(marks))
