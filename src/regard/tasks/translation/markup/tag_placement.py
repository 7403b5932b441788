"""Markup of a text -> its translation with the same markup, by word alignments.

A pair of tags wraps the words mostly aligned with the source words that it wraps; if these are not
contiguous, the interval with most of them and fewest others. Nesting is kept. A single tag goes to
the gap with most words on the same side as in the source; but an unclosed opening tag stays after
unopened closing tags of its name, and an unclosed script after everything.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from regard.tasks.translation.markup.flat_text import PlacedMarkup, PointTag, TagPair
from regard.tasks.translation.markup.markup_tree import RAW_TEXT_ELEMENTS
from regard.tasks.translation.markup.word_links import OffsetValues, TextLinks, WordSpans
from regard.text.segmentation import Span

MAJORITY_SHARE = 0.5  # a pair wraps words that have more than this share aligned with its words
MIN_SHARE = 0.1  # a pair without such a word wraps the best one, if its share is at least this
_EQUIVALENT_PUNCTUATION = str.maketrans(
    {
        **dict.fromkeys("«»“”„‟‘’‚‛‹›「」『』'", '"'),
        **dict.fromkeys("…。", "."),
        **{"！": "!", "？": "?", "，": ",", "；": ";", "：": ":"},
    }
)
"""Punctuation of different languages that is compared as equal."""


class _Insertion(NamedTuple):
    """Text that replaces some characters, or none."""

    first: int
    last: int
    order: int
    text: str


@dataclass
class _TargetRegion:
    """A part of the translation, and the words and characters that tags already wrap."""

    span: Span
    words: range
    claimed: set[int] = field(default_factory=set)  # the best word of each pair, reserved for it
    taken: dict[int, int] = field(default_factory=dict)  # wrapped word -> first word of its pair
    spans: list[Span] = field(default_factory=list)  # the wrapped characters, in order

    def is_free(self, word: int) -> bool:
        """Whether any pair may wrap the word."""
        return word not in self.claimed and word not in self.taken

    def take(self, first: int, last: int) -> Span:
        """Take the free characters from `first` to before `last`."""
        place = bisect_left(self.spans, (first, last))
        if place:
            first = max(first, self.spans[place - 1].last)
        if place < len(self.spans):
            last = min(last, self.spans[place].first)
        span = Span(first, max(first, last))
        if span.first < span.last:
            insort(self.spans, span)
        return span

    def clamp(self, place: int) -> int:
        """The nearest position within the region."""
        return min(max(place, self.span.first), self.span.last)

    def end_of_taken(self, place: int) -> int:
        """The position within the region, or the end of the wrapped characters around it."""
        place = self.clamp(place)
        number = bisect_left(self.spans, (place,))
        return max(place, self.spans[number - 1].last) if number else place


@dataclass(frozen=True)
class TagPlacer:
    """Writes a translation with the markup of its source."""

    source: WordSpans
    target: WordSpans
    links: TextLinks
    write: Callable[[int, int], str]  # the output for target characters between two positions
    spaced: bool = False  # whether single tags get spaces around them even if they had none

    def place(self, nodes: Sequence[PlacedMarkup]) -> str:
        """The whole translation with all markup in it."""
        return self._render(nodes, Span(0, len(self.target.text)))

    def _render(self, nodes: Sequence[PlacedMarkup], span: Span) -> str:
        """A part of the translation with the markup that belongs there."""
        region = _TargetRegion(span, self.target.within(*span))
        pairs = [node for node in nodes if isinstance(node, TagPair)]
        spans = iter(self._place_pairs(pairs, region))
        items = []
        min_positions: dict[str, int] = {}  # name -> the position after its closing tags
        for order, node in enumerate(nodes):
            if isinstance(node, TagPair):
                inner = next(spans)
                text = f"{node.opening}{self._render(node.inside, inner)}{node.closing}"
                items.append(_Insertion(*inner, order, text))
            else:
                ends = (min_positions.get(name, 0) for name in node.opens)
                min_position = span.last if node.opens & RAW_TEXT_ELEMENTS else max(ends, default=0)
                items.append(self._place_point(node, order, region, min_position))
            for name in node.closes:
                min_positions[name] = max(min_positions.get(name, 0), items[-1].last)
        written: list[str] = []
        place = span.first
        for item in sorted(items):
            written += self.write(place, max(place, item.first)), item.text
            place = max(place, item.last)
        return "".join(written) + self.write(place, span.last)

    def _place_pairs(self, pairs: Sequence[TagPair], region: _TargetRegion) -> list[Span]:
        """The span of each pair, without overlaps."""
        sources = [self.source.overlapping(pair.first, pair.last) for pair in pairs]
        shares = [self.links.shares(source, region.words) for source in sources]
        region.claimed.update(best for best in map(_majority_word, shares) if best is not None)
        return [
            self._place_pair(pair, source, share, region)
            for pair, source, share in zip(pairs, sources, shares, strict=True)
        ]

    def _place_pair(
        self, pair: TagPair, source: range, share: OffsetValues, region: _TargetRegion
    ) -> Span:
        if not source:
            return self._pair_around_punctuation(pair, region)
        inside = self._pair_inside_word(pair, source, share, region)
        return inside or self._pair_around_words(pair, source, share, region)

    def _pair_around_words(
        self, pair: TagPair, source: range, share: OffsetValues, region: _TargetRegion
    ) -> Span:
        """The words aligned with those that the pair wraps in the source, and its punctuation."""
        words, text, target = _best_interval(share, region), self.source.text, self.target
        if not words:
            space = target.spaces[self._target_gap(source.start, region)]
            place = region.end_of_taken(space.last)
            return region.take(place, place)
        region.taken.update(dict.fromkeys(words, words.start))
        first, last = target.words[words.start].first, target.words[words.stop - 1].last
        head = target.text[target.spaces[words.start].last : first][::-1]
        tail = target.text[last : target.spaces[words.stop].first]
        own_head = text[pair.first : self.source.words[source.start].first]
        own_tail = text[self.source.words[source.stop - 1].last : pair.last]
        first -= _count_wrapped(own_head, text[pair.first - 1 : pair.first], head)
        last += _count_wrapped(own_tail, text[pair.last : pair.last + 1], tail)
        return region.take(region.clamp(first), region.clamp(last))

    def _pair_inside_word(
        self, pair: TagPair, source: range, share: OffsetValues, region: _TargetRegion
    ) -> Span | None:
        """For tags within a word that the translation copies, the same characters of the copy."""
        word = self.source.words[source.start]
        if len(source) > 1 or (pair.first <= word.first and pair.last >= word.last):
            return None
        if not share.values.any():
            return None
        best = self.target.words[share.first + int(share.values.argmax())]
        source_word, copy = self.source.text[slice(*word)], self.target.text[slice(*best)]
        if source_word.casefold() != copy.casefold() or len(source_word) != len(copy):
            return None
        step = best.first - word.first
        return region.take(max(pair.first, word.first) + step, min(pair.last, word.last) + step)

    def _pair_around_punctuation(self, pair: TagPair, region: _TargetRegion) -> Span:
        """For tags around only punctuation, the same marks in the aligned gap, or nothing."""
        number = self._target_gap(len(self.source.overlapping(0, pair.first)), region)
        first, last = self.target.gap(number)
        first, last = max(first, region.span.first), min(last, region.span.last)
        marks = self.source.text[pair.first : pair.last].translate(_EQUIVALENT_PUNCTUATION)
        found = self.target.text[first:last].translate(_EQUIVALENT_PUNCTUATION).find(marks)
        if found < 0:
            place = min(max(self.target.spaces[number].first, first), last)
            return region.take(place, place)
        return region.take(first + found, first + found + len(marks))

    def _target_gap(self, number: int, region: _TargetRegion) -> int:
        """The gap of the translation for the source's gap before word `number`."""
        scores = self.links.gap_scores(number)
        best, values = scores.first, scores.values
        ranked = sorted(range(len(values)), key=lambda i: (values[i], i), reverse=True)
        for place in (best + i for i in ranked):
            inside = region.words.start <= place <= region.words.stop
            if inside and region.taken.get(place, -1) != region.taken.get(place - 1, -2):
                return place
        return min(max(best + ranked[0], region.words.start), region.words.stop)

    def _place_point(
        self, node: PointTag, order: int, region: _TargetRegion, min_position: int
    ) -> _Insertion:
        """Place a single tag as near to its neighbours as in the source, from `min_position` on."""
        text, number = self.source.text, len(self.source.overlapping(0, node.place))
        source_space, place = self.source.spaces[number], self._target_gap(number, region)
        space, gap = self.target.spaces[place], self.target.gap(place)
        in_word = node.place < self.source.gap(number).first
        last = None
        if in_word or text[node.place : source_space.first].strip():
            first = gap.first  # within a word, or before punctuation attached to it
        elif text[source_space.last : node.place].strip():
            first = gap.last
        elif node.before or node.after:
            first = space.first if node.after else space.last
        else:
            first, last = space  # it replaces the space
        first = region.end_of_taken(max(first, min_position))
        if last is not None and first < last <= region.span.last and not self.spaced:
            return _Insertion(*region.take(first, last), order, node.raw)
        text = self.target.text
        before = node.before and first > region.span.first and not text[first - 1].isspace()
        after = node.after and first < region.span.last and not text[first].isspace()
        before, after = before or self.spaced, after or self.spaced
        return _Insertion(first, first, order, f"{' ' * before}{node.raw}{' ' * after}")


def _majority_word(share: OffsetValues) -> int | None:
    """The word with the largest share, if that is a majority."""
    if not len(share.values) or share.values.max() <= MAJORITY_SHARE:
        return None
    return share.first + int(share.values.argmax())


def _best_interval(share: OffsetValues, region: _TargetRegion) -> range:
    """The interval of free words around the best one with the largest sum of share - 1/2."""
    own = _majority_word(share)
    best, best_value = 0, 0.0  # the first of equal ones
    for number, value in enumerate(share.values.tolist(), share.first):
        free = region.is_free(number) or (number == own and number not in region.taken)
        if free and value > best_value:
            best, best_value = number, value
    if best_value < MIN_SHARE:
        return range(0)
    ends = []
    for step in (-1, 1):
        end, gain, most = best, 0.0, 0.0
        place = best + step
        while region.is_free(place) and 0 <= place - share.first < len(share.values):
            gain += float(share.values[place - share.first]) - MAJORITY_SHARE
            if gain > most:
                end, most = place, gain
            place += step
        ends.append(end)
    return range(ends[0], ends[1] + 1)


def _count_wrapped(own: str, beside: str, marks: str) -> int:
    """How many `marks` beside a target word its pair wraps, from the word outwards: all if
    `beside`, next to the source pair, is a space; otherwise those equal to `own`, the marks wrapped
    beside the source word.
    """
    if not own.strip():
        return 0
    if not beside.strip():
        return len(marks)
    allowed = own.translate(_EQUIVALENT_PUNCTUATION)
    count = 0
    for mark in marks.translate(_EQUIVALENT_PUNCTUATION):
        if mark not in allowed:
            break
        count += 1
    return count
