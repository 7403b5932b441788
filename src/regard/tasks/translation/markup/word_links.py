"""Texts and their translations -> the spans of their words, and soft links between them."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.alignment.extraction import AlignmentSettings, normalize_rows_columns, word_map
from regard.alignment.run_alignment import TokenPair, token_attention
from regard.alignment.word_axes import TokenizedText, tokenize_text, word_axis, words_of_tokens
from regard.inspection.recording.attention_map import Axis
from regard.recipes.open_run import Run
from regard.text.segmentation import Span
from regard.text.tokenizer import WordTokenizer
from regard.text.word_units import has_unspaced, split_units, unit_spans

SINKHORN_ROUNDS = 2  # bench/tags.py: 0, 1, 2, 4 rounds place 95.0, 96.1, 96.5, 95.8 % right
OPENING_PUNCTUATION = frozenset("([{«“„‘‚‹「『《〈（［【¿¡")
"""Punctuation that belongs to the word after it, even after a space."""
ADJACENCY_WEIGHT = 0.5  # of words that stay next to a gap; words on its correct side weigh 1
_NO_SPACE = re.compile(r"\S+")


@dataclass(frozen=True)
class WordSpans:
    """A text and its words in order; punctuation and spaces are between words."""

    text: str
    words: Sequence[Span]

    def overlapping(self, first: int, last: int) -> range:
        """The words with any of the characters from `first` to before `last`."""
        begin = bisect_right(self.words, first, key=lambda word: word.last)
        return range(begin, bisect_left(self.words, last, key=lambda word: word.first))

    def within(self, first: int, last: int) -> range:
        """The words that are wholly between two positions."""
        begin = bisect_left(self.words, first, key=lambda word: word.first)
        return range(begin, max(begin, bisect_right(self.words, last, key=lambda word: word.last)))

    def gap(self, number: int) -> Span:
        """The span between the word `number` and the word before it."""
        first = self.words[number - 1].last if number else 0
        last = self.words[number].first if number < len(self.words) else len(self.text)
        return Span(first, last)

    @cached_property
    def spaces(self) -> list[Span]:
        """The space in each gap: punctuation before it belongs to the word before."""
        return [self._find_space(number) for number in range(len(self.words) + 1)]

    def _find_space(self, number: int) -> Span:
        first, last = self.gap(number)
        tokens = [Span(*found.span()) for found in _NO_SPACE.finditer(self.text, first, last)]
        if number == 0:
            return Span(first, tokens[0].first if tokens else last)
        if number == len(self.words):
            return Span(tokens[-1].last if tokens else first, last)
        if tokens == [Span(first, last)]:
            return Span(last, last)
        begin = last
        while (
            tokens
            and tokens[-1].first > first
            and (
                tokens[-1].last == last
                or OPENING_PUNCTUATION.issuperset(self.text[slice(*tokens[-1])])
            )
        ):
            begin = tokens.pop().first
        return Span(tokens[-1].last if tokens else first, begin)


class WordLinks(NamedTuple):
    """The words of a sentence and of its translation."""

    source: Sequence[Span]
    target: Sequence[Span]
    weights: NDArray[np.float64]  # (T, S): alignment of translation and source words


def link_words(
    run: Run | None, pairs: Sequence[tuple[str, str]], settings: AlignmentSettings
) -> list[WordLinks]:
    """The words of each sentence and its translation, linked by the attention of the run's model,
    or by position if there is no run or a sentence exceeds the model's length limit.
    """
    settings = settings.model_copy(update={"shares": False})  # `sinkhorn` replaces them
    tokenized = [None if run is None else _tokenize_pair(run, pair) for pair in pairs]
    token_pairs = [found.tokens for found in tokenized if found is not None]
    attentions = token_attention(run, token_pairs) if run is not None else iter(())
    linked = []
    for pair, found in zip(pairs, tokenized, strict=True):
        if found is None:
            linked.append(_link_by_position(*pair))
            continue
        weights = normalize_rows_columns(word_map(next(attentions), settings))  # (T, S)
        linked.append(WordLinks(*found.words, sinkhorn(weights.double().numpy())))
    return linked


def sinkhorn(weights: NDArray[np.float64], rounds: int = SINKHORN_ROUNDS) -> NDArray[np.float64]:
    """Sinkhorn normalisation (1967) of weights (T, S): columns, then rows, to sum 1, repeatedly."""
    tiny = np.finfo(weights.dtype).tiny
    for _ in range(rounds):
        for axis in (0, 1):
            weights = weights / weights.sum(axis, keepdims=True).clip(min=tiny)
    return weights


class _LocatedPair(NamedTuple):
    """A sentence and its translation in tokens, and the spans of the words of each."""

    tokens: TokenPair
    words: tuple[Sequence[Span], Sequence[Span]]


def _tokenize_pair(run: Run, pair: tuple[str, str]) -> _LocatedPair | None:
    """None if a text exceeds the length limit, or its normalised form lacks one of its words."""
    texts = [tokenize_text(*one) for one in zip(pair, run.tokenizers, strict=True)]
    axes = [_split_unspaced(word_axis(text), text) for text in texts]
    source, target = (_locate(axis.words, text) for axis, text in zip(axes, pair, strict=True))
    if source is None or target is None or max(len(text.ids) for text in texts) > run.longest:
        return None
    return _LocatedPair(TokenPair(texts[0].ids, texts[1].ids, *axes), (source, target))


def _split_unspaced(axis: Axis, tokens: TokenizedText) -> Axis:
    """The axis with words of unspaced scripts split where tokens begin."""
    if not any(map(has_unspaced, axis.words)):
        return axis
    text = "".join(tokens.surfaces)
    unit_at: list[int | None] = [None] * len(text)
    units: list[str] = []
    begins: set[int | None] = set()  # the units at which words of the axis begin
    for word in _locate(axis.words, text) or []:
        begins.add(len(units))
        for first, last in unit_spans(text[slice(*word)]):
            unit_at[word.first + first : word.first + last] = [len(units)] * (last - first)
            units.append(text[word.first + first : word.first + last])
    numbers = words_of_tokens(unit_at, tokens.surfaces)
    begins |= set(numbers)
    words: list[str] = []
    word_of: list[int] = []  # of each unit
    for number, unit in enumerate(units):
        words += [""] * (number in begins)
        words[-1] += unit
        word_of.append(len(words) - 1)
    word_of_tokens = [None if unit is None else word_of[unit] for unit in numbers]
    return Axis(axis.pieces, tuple(words), (*word_of_tokens, None))


def _locate(words: Sequence[str], text: str) -> list[Span] | None:
    """The spans of the words in a text, in order; None if one is not found."""
    spans: list[Span] = []
    for word in words:
        first = text.find(word, spans[-1].last if spans else 0)
        if first < 0:
            return None
        spans.append(Span(first, first + len(word)))
    return spans


def _link_by_position(source: str, target: str) -> WordLinks:
    """Words linked by the overlap of their relative positions, as if all were equally long."""
    columns, rows = _text_words(source), _text_words(target)
    x, y = np.linspace(0, 1, len(columns) + 1), np.linspace(0, 1, len(rows) + 1)
    ends, begins = np.minimum(y[1:, None], x[1:]), np.maximum(y[:-1, None], x[:-1])  # (T, S)
    return WordLinks(columns, rows, (ends - begins).clip(min=0))  # (T, S)


def _text_words(text: str) -> list[Span]:
    pieces = (piece.strip() for piece in WordTokenizer.split_pieces(text))
    words = (unit for piece in pieces for unit in split_units(piece))
    return _locate([word for word in words if any(map(str.isalnum, word))], text) or []


class OffsetValues(NamedTuple):
    """A number for each of some consecutive words, or of the gaps between words."""

    first: int  # the index of the word or gap of the first number
    values: NDArray[np.float64]


class SentenceLinks(NamedTuple):
    """The words of a sentence and its translation, with cumulative alignment shares."""

    source: range
    target: range
    cumulative_share: NDArray[np.float64]
    """(T, S + 1): the share of a target word aligned with the source words before the s-th."""


def sentence_links(source: range, target: range, weights: NDArray[np.float64]) -> SentenceLinks:
    """The links of a sentence, with rows of weights (T, S) normalised to sum 1."""
    sums = weights.sum(-1, keepdims=True)  # (T, 1)
    even = 1 / max(1, len(source))
    shares = np.where(sums > 0, weights / np.where(sums > 0, sums, 1), even)  # (T, S)
    cumulative_share = np.pad(shares.cumsum(-1), ((0, 0), (1, 0)))  # (T, S + 1)
    return SentenceLinks(source, target, cumulative_share)


class TextLinks(NamedTuple):
    """The links of the sentences of a text, in order."""

    links: Sequence[SentenceLinks]

    def shares(self, source: range, region: range) -> OffsetValues:
        """The share of each word of `region` that its own sentence aligns with `source`."""
        begin = bisect_right(self.links, source.start, key=lambda one: one.source.stop)
        end = bisect_left(self.links, source.stop, key=lambda one: one.source.start)
        sentences, found = self.links[begin:end], [np.zeros(0)]
        for one in sentences:
            ends = np.clip((source.start, source.stop), one.source.start, one.source.stop)
            first, last = ends - one.source.start
            found.append(one.cumulative_share[:, last] - one.cumulative_share[:, first])
        offset = sentences[0].target.start if sentences else region.start
        values = np.concatenate(found)
        values = values[max(0, region.start - offset) : max(0, region.stop - offset)]
        return OffsetValues(max(region.start, offset), values)

    def gap_scores(self, number: int) -> OffsetValues:
        """How well each gap of the translation fits the gap before source word `number`: the shares
        of words on the correct side of it, and ADJACENCY_WEIGHT for words next to both gaps.
        """
        place = bisect_left(self.links, number, key=lambda one: one.source.stop)
        if place == len(self.links):
            return OffsetValues(self.links[-1].target.stop if self.links else 0, np.zeros(1))
        source, target, share = self.links[place]
        column = number - source.start
        if column <= 0 or number == source.stop:
            return OffsetValues(target.start if column <= 0 else target.stop, np.zeros(1))
        left = share[:, column]  # (T,)
        before = np.concatenate([[0.0], left.cumsum()])  # (T + 1,)
        after = np.concatenate([(1 - left)[::-1].cumsum()[::-1], [0.0]])  # (T + 1,)
        just_before = np.concatenate([[0.0], left - share[:, column - 1]])  # (T + 1,)
        just_after = np.concatenate([share[:, column + 1] - left, [0.0]])  # (T + 1,)
        adjacent = just_before + just_after
        return OffsetValues(target.start, before + after + ADJACENCY_WEIGHT * adjacent)
