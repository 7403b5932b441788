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
from itertools import accumulate, islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.alignment.extraction import AlignmentSettings
from regard.alignment.run_alignment import attends, best_alignment
from regard.alignment.word_axes import tokenize_text
from regard.decoding.settings import DecodingSettings
from regard.errors import require_texts
from regard.pipelines.answer import Answer, Candidate
from regard.pipelines.markup.flat_text import FlatText, flatten, protected_texts
from regard.pipelines.markup.markup_tree import (
    TextNode,
    TreeNode,
    has_same_markup,
    list_markup,
    parse_markup,
    parse_protected,
)
from regard.pipelines.markup.stand_in_names import assign_names, spellable_names
from regard.pipelines.markup.tag_placement import TagPlacer
from regard.pipelines.markup.word_links import WordLinks, link_words
from regard.pipelines.markup.word_spans import TextLinks, WordSpans, sentence_links
from regard.pipelines.translator import Translator
from regard.recipes.run_folder import Run
from regard.text.preprocess import sanitize, split_long
from regard.text.segmentation import CHARACTER_REFERENCE, Segment, Segments
from regard.text.sentence_splitter import Span
from regard.text.word_units import has_unspaced

_SPACE_REFERENCES = "&nbsp;", "&#160;", "&#xa0;", "&#xA0;"
_SPACE = re.compile(rf"(?:\s|{'|'.join(_SPACE_REFERENCES)})*")
_LINE_BREAK = re.compile(r"\s*[\r\n]\s*")
"""In a paragraph, where it is a space."""
_TAG_START = re.compile(r"<(?=[A-Za-z/!?]|\d[\d:.]*>)")
"""What begins a tag, now or once a `>` is placed behind it."""
_BRACED = re.compile(r"\{+[^{}\n]*\}+")
_PLACEHOLDER_START = re.compile(r"[%$](?=[\w({#+.-])")
"""What a placeholder may begin with."""


class MarkupAnswer(NamedTuple):
    """A translation with the markup of its source."""

    text: str
    notes: tuple[str, ...] = ()
    """What was odd about the text."""
    model_answers: tuple[Answer, ...] = ()
    """What the model was asked and said."""

    @property
    def candidate(self) -> Candidate:
        """The translation with the score of what the model said."""
        score = sum(answer.candidates[0].score for answer in self.model_answers)
        log_probability = sum(answer.candidates[0].log_probability for answer in self.model_answers)
        return Candidate(self.text, score, log_probability)


def translate_markup(
    translator: Translator,
    texts: Sequence[str],
    settings: DecodingSettings | None = None,
    *,
    split: bool | None = None,
    alignment: AlignmentSettings | None = None,
) -> list[str]:
    """The translation of each text with its tags, placeholders and addresses: N in, N out.

    Each text is a line or a paragraph, whose sentences are split or not as in
    `Translator.translate`. `alignment` says how links are read off attention; otherwise it is as
    measured for the run. References to characters are resolved for the model; a text that has some
    is answered with `&`, `<` and `>` written as such.
    """
    carrier = MarkupTranslator(translator, settings, split=split, alignment=alignment)
    return [one.text for one in carrier.translate_texts(texts)]


@dataclass
class _MarkupDraft:
    """A text on its way."""

    pieces: tuple[TreeNode, ...]
    before: str
    """The space before its first piece."""
    behind: str
    escaped: bool
    """Whether it refers to characters by name."""
    names: dict[str, list[str]] = field(default_factory=dict)
    """For what is held the names that may stand for it: the first does."""
    plain: FlatText = field(default_factory=lambda: FlatText("", ()))
    segments: Segments = field(default_factory=lambda: Segments([]))
    """The plain text in sentences and what stays as it is."""

    @property
    def words(self) -> dict[str, str]:
        """What stands for what is held."""
        return {protected: names[0] for protected, names in self.names.items() if names}

    def parts(self) -> list[int]:
        """Which segments have words to link: those that are not blank."""
        return [number for number, one in enumerate(self.segments.parts) if one.text.strip()]


@dataclass
class MarkupTranslator:
    """Translates texts and carries their markup over."""

    translator: Translator
    settings: DecodingSettings | None = None
    split: bool | None = None
    """Whether the sentences of a text are translated one by one; none: as the run has learned."""
    alignment: AlignmentSettings | None = None
    """How links are read off attention; none: as measured for the run."""
    forbidden: Sequence[str] = ()
    unknown: Mapping[str, str] | None = None
    """As in `Translator.translate`."""
    names: Sequence[Sequence[str]] | None = None
    """Kinds of names that may stand for what is held; none: those that the model can spell."""
    tags: bool = True
    """Whether tags are carried, too: otherwise they are text, and only addresses and placeholders
    are held. An export alone can do that: it has no attention, and seldom needs it."""

    def __post_init__(self) -> None:
        if self.tags:
            self._alignment_run()
        if self.names is None:
            self.names = spellable_names((self.translator.sources[0], self.translator.target))
        self._answer_cache: dict[str, Answer] = {}

    def _alignment_run(self) -> Run | None:
        """The run whose attention says which words belong together; None where there is none."""
        if not self.tags and not self.translator.has_runs:
            return None
        run = next(filter(attends, self.translator.runs), None)
        if self.alignment is None and run is not None:
            self.alignment = best_alignment(run)
        return run

    def _parse(self, text: str) -> tuple[TreeNode, ...]:
        return parse_markup(text) if self.tags else parse_protected(text)

    def translate_texts(self, texts: Sequence[str]) -> list[MarkupAnswer]:
        """The translation of each text, with its markup: N in, N out.

        A text without markup is translated as `Translator.translate` does it; what is no sentence,
        besides its markup, stays as it is.
        """
        require_texts("texts", texts)
        drafts = [self._draft(sanitize(text)) for text in texts]
        self._answer_cache = {}
        self._translate([draft for draft in drafts if draft.segments.lines])
        marked = [draft for draft in drafts if draft.plain.nodes]
        pairs = [
            (draft.segments.parts[place].text, answers[place])
            for draft in marked
            for answers in [self._answers(draft)]
            for place in draft.parts()
        ]
        run = self._alignment_run() if pairs else None
        linked = iter(link_words(run, pairs, self.alignment or AlignmentSettings()))
        return [
            self._write(draft, list(islice(linked, len(draft.parts()) * bool(draft.plain.nodes))))
            for draft in drafts
        ]

    def _draft(self, text: str) -> _MarkupDraft:
        """The text taken apart; nothing to translate where it says nothing."""
        before, behind = _surrounding_space(text)
        pieces = self._parse(text[len(before) : len(text) - len(behind)])
        escaped = self.tags and CHARACTER_REFERENCE.search(text) is not None
        draft = _MarkupDraft(pieces, before, behind, escaped)
        if not draft.escaped and all(isinstance(piece, TextNode) for piece in pieces):
            inner = _LINE_BREAK.sub(" ", "".join(piece.raw for piece in pieces))
            draft.plain = FlatText(inner, ())
            draft.segments = self.translator.segment(inner, split=self.split)
            return draft
        bare = flatten(pieces, {}).text
        if self.translator.segment(bare, split=self.split).lines:
            draft.names = assign_names(protected_texts(pieces), self.names or (), bare)
            self._flatten(draft)
        return draft

    def _flatten(self, draft: _MarkupDraft) -> None:
        draft.plain = flatten(draft.pieces, draft.words)
        found = self.translator.segment(draft.plain.text, split=self.split)
        draft.segments = Segments(
            [one for part in found.parts for one in self._split_to_limit(part)]
        )

    def _split_to_limit(self, segment: Segment) -> list[Segment]:
        """The segment in parts that the model can take, where it is longer."""
        if not segment.says:
            return [segment]
        tokenizer = self.translator.sources[0]
        ids, surfaces = tokenize_text(segment.text, tokenizer)
        parts = split_long(ids, tokenizer, self.translator.limit)
        if len(parts) == 1 or "".join(surfaces) != segment.text:
            return [segment]
        rest = iter(surfaces)
        texts = ["".join(islice(rest, len(part))) for part in parts]
        return [one for text in texts for one in _trim(text)]

    def _translate(self, drafts: Sequence[_MarkupDraft]) -> None:
        """Translate what the drafts say, until nothing that is held is lost."""
        while drafts:
            sentences = (one for draft in drafts for one in draft.segments.lines)
            new = dict.fromkeys(one for one in sentences if one not in self._answer_cache)
            answers = self.translator.translate(
                list(new),
                self.settings,
                forbidden=self.forbidden,
                unknown=self.unknown,
                split=False,
            )
            self._answer_cache |= zip(new, answers, strict=True)
            drafts = [draft for draft in drafts if self._retry_lost_names(draft)]

    def _retry_lost_names(self, draft: _MarkupDraft) -> bool:
        """Whether some name was not copied: the next is tried, or what it is for left out."""
        counts = Counter(protected_texts(draft.pieces))
        written = self._answers(draft)
        sentences = [
            (one.text, answer) for one, answer in zip(draft.segments.parts, written, strict=True)
        ]
        not_copied = []
        for protected, name in draft.words.items():
            found = [[len(_find_word(name, text)) for text in pair] for pair in sentences]
            whole = sum(here for here, _ in found) == counts[protected]  # and no part of a word
            if not whole or any(here != there for here, there in found):
                not_copied.append(protected)
        for protected in not_copied:
            del draft.names[protected][0]
        if not_copied:
            self._flatten(draft)
        return bool(not_copied)

    def _answers(self, draft: _MarkupDraft) -> list[str]:
        """What stands for each segment of a text; what is not translated stays as it is.

        But for a `<!`, say, which the `>` of another sentence would close, and for what becomes a
        placeholder because another was taken out of it.
        """
        if not self.tags:
            return draft.segments.write(
                [self._answer_cache[one].text for one in draft.segments.lines]
            )
        model_answers = [
            _strip_markup(self._answer_cache[one].text) for one in draft.segments.lines
        ]
        written = draft.segments.write(model_answers)
        return [
            answer if part.says else _strip_new_markup(answer)
            for part, answer in zip(draft.segments.parts, written, strict=True)
        ]

    def _write(self, draft: _MarkupDraft, linked: Sequence[WordLinks]) -> MarkupAnswer:
        """The translation of a text, with its markup."""
        if not draft.segments.lines:
            raw = "".join(piece.raw for piece in draft.pieces)
            return MarkupAnswer(f"{draft.before}{raw}{draft.behind}")
        notes = dict.fromkeys(
            note for sentence in draft.segments.lines for note in self._answer_cache[sentence].notes
        )
        answers = self._answers(draft)
        target = "".join(answers)
        protected = sorted(
            (*span, raw) for raw, name in draft.words.items() for span in _find_word(name, target)
        )
        for spaced in (False, True):  # what is held may run into the words beside it
            writer = _ProtectedTextWriter(target, protected, draft.escaped, spaced)
            text = writer(0, len(target))
            if linked:
                text = _make_placer(draft, answers, linked, writer).place(draft.plain.nodes)
            if has_same_markup(draft.pieces, self._parse(text)):
                break
        model_answers = tuple(self._answer_cache[one] for one in draft.segments.lines)
        return MarkupAnswer(
            f"{draft.before}{text.strip()}{draft.behind}", tuple(notes), model_answers
        )


@dataclass(frozen=True)
class _ProtectedTextWriter:
    """Writes stretches of a translation, with what is held in the place of its stand-ins."""

    text: str
    protected: Sequence[tuple[int, int, str]]
    escaped: bool
    spaced: bool
    """Whether there are spaces around what is held, even where the stand-in has none."""

    def __call__(self, first: int, last: int) -> str:
        written: list[str] = []
        number = bisect_left(self.protected, (first,))
        while number < len(self.protected) and self.protected[number][1] <= last:
            begin, end, raw = self.protected[number]
            before = " " * (self.spaced and begin > 0 and not self.text[begin - 1].isspace())
            behind = " " * (self.spaced and not self.text[end : end + 1].isspace())
            written += self._escape(first, begin), before, raw, behind
            first, number = end, number + 1
        return "".join([*written, self._escape(first, last)])

    def _escape(self, first: int, last: int) -> str:
        text = self.text[first:last]
        return html.escape(text, quote=False) if self.escaped else text


def _make_placer(
    draft: _MarkupDraft,
    answers: Sequence[str],
    linked: Sequence[WordLinks],
    writer: _ProtectedTextWriter,
) -> TagPlacer:
    """What places the markup: the words of all sentences, each linked with those of its own."""
    sources: list[Span] = []
    targets: list[Span] = []
    links = []
    target = "".join(answers)
    firsts = list(accumulate((len(part.text) for part in draft.segments.parts), initial=0))
    places = list(accumulate(map(len, answers), initial=0))
    for number, one in zip(draft.parts(), linked, strict=True):
        first, place = firsts[number], places[number]
        columns = [Span(word.first + first, word.last + first) for word in one.source]
        rows = [Span(word.first + place, word.last + place) for word in one.target]
        for name in draft.words.values():
            _link_stand_ins(name, (draft.plain.text, columns), (target, rows), one.weights)
        numbers = range(len(sources), len(sources) + len(columns))
        links.append(
            sentence_links(numbers, range(len(targets), len(targets) + len(rows)), one.weights)
        )
        sources += columns
        targets += rows
    return TagPlacer(
        WordSpans(draft.plain.text, sources),
        WordSpans(target, targets),
        TextLinks(links),
        writer,
        writer.spaced,
    )


def _link_stand_ins(
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
            _continues_word(text[max(0, one.start() - 1) : one.start()])
            or _continues_word(text[one.end() : one.end() + 1])
        )
    ]


def _continues_word(letter: str) -> bool:
    """Whether a word goes on with what stands beside it."""
    return re.match(r"\w", letter) is not None and not has_unspaced(letter)


def _surrounding_space(text: str) -> tuple[str, str]:
    """The space before and behind what a text says, however it is written."""
    before = _SPACE.match(text)
    assert before is not None  # it may be empty
    last = len(text)
    while before.end() < last:
        rest = text[:last].rstrip()
        reference = next((one for one in _SPACE_REFERENCES if rest.endswith(one)), "")
        if not reference and len(rest) == last:
            break
        last = len(rest) - len(reference)
    last = max(last, before.end())
    return before[0], text[last:]


def _trim(text: str) -> list[Segment]:
    """A part of a sentence, and the spaces at its ends."""
    inner = text.strip()
    first = text.find(inner)
    parts = Segment(text[:first]), Segment(inner, says=True), Segment(text[first + len(inner) :])
    return [part for part in parts if part.text]


def _strip_markup(text: str) -> str:
    """A translation without what would be taken for markup: only its source's belongs there."""
    text, before = _TAG_START.sub("< ", text), ""
    while text != before:  # without its inner braces there may be others around a word
        text, before = _BRACED.sub(lambda found: found[0].strip("{}"), text), text
    return _PLACEHOLDER_START.sub(r"\g<0> ", text)


def _strip_new_markup(text: str) -> str:
    """What stays as it is, without what would be taken for markup beside other text."""
    text = _TAG_START.sub("< ", text)
    return _strip_markup(text) if any(list_markup(parse_markup(text))) else text
