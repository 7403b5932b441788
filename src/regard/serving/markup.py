"""Text with inline tags and placeholders -> its translation, with all of them in their places.

A model reads the text without its markup. What it attends to, told its own translation, says which
words come from which, and the markup goes with them: see `inline.placing`. What is not translated,
a placeholder, an address, code, stands in a sentence like a noun, and without its nouns it would be
another sentence: a name stands for it, which models copy. Where one does not, the sentence is
translated without, and what was held goes where its neighbours went.
"""

import html
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, islice, pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.decoding.settings import DecodingSettings
from regard.inspection.alignment import AlignmentSettings
from regard.inspection.lexical import cut_text
from regard.serving.aligning import attends, best_alignment
from regard.serving.answer import Answer
from regard.serving.inline.holding import assign, known_names
from regard.serving.inline.linking import Linked, link_words
from regard.serving.inline.pieces import REFERENCE, Piece, keeps, markup_of, parse, says
from regard.serving.inline.placing import Placer
from regard.serving.inline.plain import Plain, flatten, holds_of
from regard.serving.inline.sentences import split_sentences
from regard.serving.inline.sides import Blocks, Side, Span, block
from regard.serving.lines import mend, split_long
from regard.serving.translator import Translator
from regard.text.word_units import has_unspaced

_SPACES = "&nbsp;", "&#160;", "&#xa0;", "&#xA0;"
_SPACE = re.compile(rf"(?:\s|{'|'.join(_SPACES)})*")
_OPENING = re.compile(r"<(?=[A-Za-z/!?]|\d[\d:.]*>)")
"""What begins a tag, now or once a `>` is placed behind it."""
_BRACED = re.compile(r"\{+[^{}\n]*\}+")
_SIGN = re.compile(r"[%$](?=[\w({#+.-])")
"""What a placeholder may begin with."""
_UNSPACED_END = re.compile(r"[。！？」』）、，]\Z")


class Carried(NamedTuple):
    """A translation with the markup of its source."""

    text: str
    notes: tuple[str, ...] = ()
    """What was odd about the text."""


def translate_markup(
    translator: Translator,
    texts: Sequence[str],
    settings: DecodingSettings | None = None,
    *,
    sentences: bool = True,
    alignment: AlignmentSettings | None = None,
) -> list[str]:
    """The translation of each text with its tags, placeholders and addresses: N in, N out.

    Each text is a line or a paragraph, whose `sentences` are translated one by one unless it is
    one. `alignment` says how links are read off attention; otherwise it is as measured for the
    run. References to characters are resolved for the model; a text that has some is answered with
    `&`, `<` and `>` written as such.
    """
    carrier = Carrier(translator, settings, sentences=sentences, alignment=alignment)
    return [one.text for one in carrier.carry(texts)]


@dataclass
class _Draft:
    """A text on its way."""

    pieces: tuple[Piece, ...]
    before: str
    """The space before its first piece."""
    behind: str
    escaped: bool
    """Whether it refers to characters by name."""
    names: dict[str, list[str]] = field(default_factory=dict)
    """For what is held the names that may stand for it: the first does."""
    plain: Plain = field(default_factory=lambda: Plain("", ()))
    parts: list[Span] = field(default_factory=list)
    """What is translated at a time."""

    @property
    def words(self) -> dict[str, str]:
        """What stands for what is held."""
        return {held: names[0] for held, names in self.names.items() if names}

    def sentences(self) -> list[str]:
        return [self.plain.text[slice(*part)] for part in self.parts]


@dataclass
class Carrier:
    """Translates texts and carries their markup over."""

    translator: Translator
    settings: DecodingSettings | None = None
    sentences: bool = True
    """Whether a text may hold several sentences, which are translated one by one."""
    alignment: AlignmentSettings | None = None
    """How links are read off attention; none: as measured for the run."""
    forbidden: Sequence[str] = ()
    unknown: Mapping[str, str] | None = None
    """As in `Translator.translate`."""
    names: Sequence[Sequence[str]] | None = None
    """Kinds of names that may stand for what is held; none: those that the model can spell."""

    def __post_init__(self) -> None:
        runs = self.translator.runs
        self._run = next(filter(attends, runs), None)
        if self.names is None:
            self.names = known_names(runs[0].tokenizers)
        if self.alignment is None and self._run is not None:
            self.alignment = best_alignment(self._run)
        self._said: dict[str, Answer] = {}

    def carry(self, texts: Sequence[str]) -> list[Carried]:
        """The translation of each text, with its markup: N in, N out.

        A text without letters or digits, besides its markup, stays as it is.
        """
        drafts = [self._draft(mend(text)) for text in texts]
        self._said = {}
        self._translate([draft for draft in drafts if draft.parts])
        marked = [draft for draft in drafts if draft.plain.nodes]
        pairs = [(one, self._answer(one)) for draft in marked for one in draft.sentences()]
        linked = iter(link_words(self._run, pairs, self.alignment or AlignmentSettings()))
        return [
            self._write(draft, list(islice(linked, len(draft.parts) * bool(draft.plain.nodes))))
            for draft in drafts
        ]

    def _draft(self, text: str) -> _Draft:
        """The text taken apart; nothing to translate where it says nothing."""
        before, behind = _outer_space(text)
        pieces = parse(text[len(before) : len(text) - len(behind)])
        draft = _Draft(pieces, before, behind, REFERENCE.search(text) is not None)
        bare = flatten(pieces, {}).text
        if says(bare, digits=True):
            draft.names = assign(holds_of(pieces), self.names or (), bare)
            self._flatten(draft)
        return draft

    def _flatten(self, draft: _Draft) -> None:
        draft.plain = flatten(draft.pieces, draft.words)
        text = draft.plain.text
        spans = split_sentences(text) if self.sentences else [Span(0, len(text))]
        draft.parts = [part for span in spans for part in self._fit(text, span)]

    def _fit(self, text: str, span: Span) -> list[Span]:
        """The span in parts that the model can take, where it is longer."""
        tokenizer = self.translator.sources[0]
        sentence = text[slice(*span)]
        ids, surfaces = cut_text(sentence, tokenizer)
        parts = split_long(ids, tokenizer, self.translator.limit)
        if len(parts) == 1 or "".join(surfaces) != sentence:
            return [span]
        rest = iter(surfaces)
        lengths = [sum(map(len, islice(rest, len(part)))) for part in parts]
        ends = accumulate(lengths, initial=span.first)
        return [_trim(text, Span(first, last)) for first, last in pairwise(ends)]

    def _translate(self, drafts: Sequence[_Draft]) -> None:
        """Translate what the drafts say, until nothing that is held is lost."""
        while drafts:
            sentences = (one for draft in drafts for one in draft.sentences())
            new = dict.fromkeys(
                one for one in sentences if says(one, digits=True) and one not in self._said
            )
            answers = self.translator.translate(
                list(new), self.settings, forbidden=self.forbidden, unknown=self.unknown
            )
            self._said |= zip(new, answers, strict=True)
            drafts = [draft for draft in drafts if self._let_go(draft)]

    def _let_go(self, draft: _Draft) -> bool:
        """Whether some name was not copied: the next is tried, or what it is for left out."""
        counts = Counter(holds_of(draft.pieces))
        sentences = [(one, self._answer(one)) for one in draft.sentences()]
        lost = []
        for held, name in draft.words.items():
            found = [[len(_find_word(name, text)) for text in pair] for pair in sentences]
            whole = sum(here for here, _ in found) == counts[held]  # and no part of a word
            if not whole or any(here != there for here, there in found):
                lost.append(held)
        for held in lost:
            del draft.names[held][0]
        if lost:
            self._flatten(draft)
        return bool(lost)

    def _answer(self, sentence: str) -> str:
        """The translation of a sentence; what says nothing stays as it is.

        But for a `<!`, say, which the `>` of another sentence would close, and for what becomes a
        placeholder because another was taken out of it.
        """
        if sentence in self._said:
            return _tame(self._said[sentence].text)
        text = _OPENING.sub("< ", sentence)
        return _tame(text) if any(markup_of(parse(text))) else text

    def _write(self, draft: _Draft, linked: Sequence[Linked]) -> Carried:
        """The translation of a text, with its markup."""
        if not draft.parts:
            raw = "".join(piece.raw for piece in draft.pieces)
            return Carried(f"{draft.before}{raw}{draft.behind}")
        notes = dict.fromkeys(
            note
            for sentence in draft.sentences()
            if sentence in self._said
            for note in self._said[sentence].notes
        )
        answers = [self._answer(sentence) for sentence in draft.sentences()]
        target, places = _join(answers)
        held = sorted(
            (*span, raw) for raw, name in draft.words.items() for span in _find_word(name, target)
        )
        for spaced in (False, True):  # what is held may run into the words beside it
            writer = _Writer(target, held, draft.escaped, spaced)
            text = writer(0, len(target))
            if linked:
                text = _placer(draft, target, places, linked, writer).place(draft.plain.nodes)
            if keeps(draft.pieces, text):
                break
        return Carried(f"{draft.before}{text.strip()}{draft.behind}", tuple(notes))


@dataclass(frozen=True)
class _Writer:
    """Writes stretches of a translation, with what is held in the place of its stand-ins."""

    text: str
    held: Sequence[tuple[int, int, str]]
    escaped: bool
    spaced: bool
    """Whether there are spaces around what is held, even where the stand-in has none."""

    def __call__(self, first: int, last: int) -> str:
        written: list[str] = []
        number = bisect_left(self.held, (first,))
        while number < len(self.held) and self.held[number][1] <= last:
            begin, end, raw = self.held[number]
            before = " " * (self.spaced and begin > 0 and not self.text[begin - 1].isspace())
            behind = " " * (self.spaced and not self.text[end : end + 1].isspace())
            written += self._escape(first, begin), before, raw, behind
            first, number = end, number + 1
        return "".join([*written, self._escape(first, last)])

    def _escape(self, first: int, last: int) -> str:
        text = self.text[first:last]
        return html.escape(text, quote=False) if self.escaped else text


def _placer(
    draft: _Draft, target: str, places: Sequence[int], linked: Sequence[Linked], writer: _Writer
) -> Placer:
    """What places the markup: the words of all sentences, each linked with those of its own."""
    sources: list[Span] = []
    targets: list[Span] = []
    blocks = []
    for part, place, one in zip(draft.parts, places, linked, strict=True):
        columns = [Span(word.first + part.first, word.last + part.first) for word in one.source]
        rows = [Span(word.first + place, word.last + place) for word in one.target]
        for name in draft.words.values():
            _link_copies(name, (draft.plain.text, columns), (target, rows), one.weights)
        numbers = range(len(sources), len(sources) + len(columns))
        blocks.append(block(numbers, range(len(targets), len(targets) + len(rows)), one.weights))
        sources += columns
        targets += rows
    return Placer(
        Side(draft.plain.text, sources),
        Side(target, targets),
        Blocks(blocks),
        writer,
        writer.spaced,
    )


def _link_copies(
    name: str,
    source: tuple[str, Sequence[Span]],
    target: tuple[str, Sequence[Span]],
    weights: NDArray[np.float64],
) -> None:
    """Let each copy of a stand-in come from its original alone, in `weights` (T, S)."""
    columns, rows = (
        [number for number, word in enumerate(words) if text[slice(*word)] == name]
        for text, words in (source, target)
    )
    for row, column in zip(rows, columns, strict=False):
        weights[row], weights[:, column] = 0, 0
        weights[row, column] = 1


def _find_word(word: str, text: str) -> list[Span]:
    """Where a word stands in a text; letters of a script without spaces end it as a space does."""
    return [
        Span(*one.span())
        for one in re.finditer(re.escape(word), text)
        if not (
            _goes_on(text[max(0, one.start() - 1) : one.start()])
            or _goes_on(text[one.end() : one.end() + 1])
        )
    ]


def _goes_on(letter: str) -> bool:
    """Whether a word goes on with what stands beside it."""
    return re.match(r"\w", letter) is not None and not has_unspaced(letter)


def _outer_space(text: str) -> tuple[str, str]:
    """The space before and behind what a text says, however it is written."""
    before = _SPACE.match(text)
    assert before is not None  # it may be empty
    last = len(text)
    while before.end() < last:
        rest = text[:last].rstrip()
        reference = next((one for one in _SPACES if rest.endswith(one)), "")
        if not reference and len(rest) == last:
            break
        last = len(rest) - len(reference)
    last = max(last, before.end())
    return before[0], text[last:]


def _trim(text: str, span: Span) -> Span:
    """The span without the spaces at its ends."""
    inner = text[slice(*span)]
    first = span.first + len(inner) - len(inner.lstrip())
    return Span(first, max(first, span.last - len(inner) + len(inner.rstrip())))


def _join(sentences: Sequence[str]) -> tuple[str, list[int]]:
    """The sentences in one text, and where each begins."""
    written: list[str] = []
    places, length = [], 0
    for sentence in sentences:
        if length and sentence and not _UNSPACED_END.search(written[-1]):
            written.append(" ")
            length += 1
        places.append(length)
        written.append(sentence)
        length += len(sentence)
    return "".join(written), places


def _tame(text: str) -> str:
    """A translation without what would be taken for markup: only its source's belongs there."""
    text, before = _OPENING.sub("< ", text), ""
    while text != before:  # without its inner braces there may be others around a word
        text, before = _BRACED.sub(lambda found: found[0].strip("{}"), text), text
    return _SIGN.sub(r"\g<0> ", text)
