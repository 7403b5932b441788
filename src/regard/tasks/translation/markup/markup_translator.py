"""Text with inline tags and placeholders -> its translation with all of them in place.

The model translates the text without its markup; tags follow their words by the word alignment of
its attention (`tag_placement`). Protected text (placeholders, addresses, code) is replaced by
names, which models copy. If a name is not copied, the sentence is translated without the protected
text, which is then placed like a tag.
"""

import html
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, islice
from typing import NamedTuple

from regard.alignment.extraction import AlignmentSettings
from regard.alignment.run_alignment import best_alignment, has_cross_attention
from regard.alignment.word_axes import tokenize_text
from regard.decoding.settings import DecodingSettings
from regard.engines.translation_request import TranslationRequest
from regard.recipes.open_run import Run
from regard.tasks.families.answer import Answer, Candidate, join_answers
from regard.tasks.translation.markup.flat_text import (
    FlatText,
    assign_names,
    flatten,
    protected_texts,
    spellable_names,
)
from regard.tasks.translation.markup.markup_tree import (
    Leaf,
    TreeNode,
    has_same_markup,
    list_markup,
    parse_markup,
)
from regard.tasks.translation.markup.tag_placement import TagPlacer
from regard.tasks.translation.markup.word_links import (
    TextLinks,
    WordLinks,
    WordSpans,
    link_words,
    sentence_links,
)
from regard.tasks.translation.pipeline import Translator
from regard.text.preprocess import PreparedText, part_id, require_texts, sanitize, split_long
from regard.text.segmentation import (
    CHARACTER_REFERENCE,
    Segment,
    Segments,
    Span,
    holds_codes,
    strip_segments,
)
from regard.text.word_units import UNSPACED_LETTERS

_SPACE_REFERENCES = "&nbsp;", "&#160;", "&#xa0;", "&#xA0;"
_SPACE = re.compile(rf"(?:\s|{'|'.join(_SPACE_REFERENCES)})*")
_REVERSED_SPACE = re.compile(rf"(?:\s|{'|'.join(one[::-1] for one in _SPACE_REFERENCES)})*")
_LINE_BREAK = re.compile(r"\s*[\r\n]\s*")  # a line break in a paragraph is a space
_TAG_START = re.compile(r"<(?=[A-Za-z/!?]|\d[\d:.]*>)")  # of a tag, even if it never ends
_BRACED = re.compile(r"\{+[^{}\n]*\}+")
_PLACEHOLDER_START = re.compile(r"[%$](?=[\w({#+.-])")
_WORD_CHARACTER = rf"[^\W{UNSPACED_LETTERS}]"  # continues a word, unlike unspaced scripts


class MarkupAnswer(NamedTuple):
    """A translation with the markup of its source."""

    text: str
    model_answers: tuple[Answer, ...] = ()  # the translations of its sentences without markup

    @property
    def notes(self) -> tuple[str, ...]:
        """Warnings about the text."""
        return tuple(dict.fromkeys(note for one in self.model_answers for note in one.notes))

    @property
    def candidate(self) -> Candidate:
        """The translation with the scores of its sentences."""
        return Candidate.join(self.text, [answer.candidates[0] for answer in self.model_answers])


def translate_markup(
    translator: Translator,
    texts: Sequence[str],
    settings: DecodingSettings | None = None,
    *,
    split: bool | None = None,
    alignment: AlignmentSettings | None = None,
) -> list[str]:
    """The translation of each text, a line or a paragraph, with its markup; `split` is as in
    `Translator.translate`. If a text has character references, its translation has `&`, `<` and `>`
    escaped.
    """
    markup = MarkupTranslator(translator, settings, split=split, alignment=alignment)
    return [one.text for one in markup.translate_texts(texts)]


def translate_protected(
    translator: Translator, sentences: Sequence[str], request: TranslationRequest
) -> list[Answer]:
    """The answer to each sentence, with its addresses and placeholders: one candidate each."""
    markup = MarkupTranslator(
        translator,
        request.settings,
        split=False,
        forbidden=request.forbidden,
        unknown=request.unknown,
        tags=False,
    )
    return [
        Answer(sentence, (one.candidate,), one.notes)
        for sentence, one in zip(sentences, markup.translate_texts(sentences), strict=True)
    ]


def translate_with_protected(
    translator: Translator, prepared: Sequence[PreparedText], request: TranslationRequest
) -> list[Answer]:
    """The answer to each text; addresses and placeholders in its sentences are kept."""
    segmented = [one.lines[0].segments for one in prepared]
    sentences = [sentence for segments in segmented for sentence in segments.lines]
    plain = [sentence for sentence in sentences if not holds_codes(sentence)]
    protected = [sentence for sentence in sentences if holds_codes(sentence)]
    answers = (
        iter(translator.answer(plain, request, split=False)),
        iter(translate_protected(translator, protected, request)),
    )
    return [
        join_answers(
            one.text, segments, [next(answers[holds_codes(line)]) for line in segments.lines]
        )
        for one, segments in zip(prepared, segmented, strict=True)
    ]


@dataclass
class _MarkupDraft:
    """A text that is being translated."""

    pieces: tuple[TreeNode, ...]
    before: str  # the space before its first piece
    after: str  # the space after its last piece
    escaped: bool  # whether it has character references
    names: dict[str, list[str]] = field(default_factory=dict)
    """Stand-in names of each protected text; the first is used, the others are tried later."""
    plain: FlatText = field(default_factory=lambda: FlatText("", ()))
    segments: Segments = field(default_factory=lambda: Segments([]))
    """The plain text in sentences and what is copied between them."""

    @property
    def stand_ins(self) -> dict[str, str]:
        """Protected text -> the name in its place."""
        return {protected: names[0] for protected, names in self.names.items() if names}

    def linked_parts(self) -> list[int]:
        """The indices of the segments whose words are linked: those with text, if it has markup."""
        parts = enumerate(self.segments.parts) if self.plain.nodes else ()
        return [number for number, one in parts if one.text.strip()]


@dataclass
class MarkupTranslator:
    """Translates texts and transfers their markup."""

    translator: Translator
    settings: DecodingSettings | None = None
    split: bool | None = None  # whether sentences are translated one by one; None: as in training
    alignment: AlignmentSettings | None = None  # None: as measured for the run
    forbidden: Sequence[str] = ()
    unknown: Mapping[str, str] | None = None  # as in `Translator.translate`
    names: Sequence[Sequence[str]] | None = None  # kinds of stand-ins; None: spellable ones
    tags: bool = True
    """If False, tags are text; addresses and placeholders, still protected, need no attention."""

    def __post_init__(self) -> None:
        if self.tags:
            self._alignment_run()
        if self.names is None:
            self.names = spellable_names((self.translator.sources[0], self.translator.target))
        self._answer_cache: dict[str, Answer] = {}

    def _alignment_run(self) -> Run | None:
        """The run whose attention aligns words; None: words are aligned by position."""
        if not self.tags and not self.translator.has_runs:
            return None
        run = next(filter(has_cross_attention, self.translator.runs), None)
        if self.alignment is None and run is not None:
            self.alignment = best_alignment(run)
        return run

    def translate_texts(self, texts: Sequence[str], first: int = 0) -> list[MarkupAnswer]:
        """The translation of each text, with its markup: N in, N out. `first` is the number of the
        first text, which seeds its samples, as in `Translator.translate`.
        """
        require_texts("texts", texts)
        settings = self.settings or self.translator.settings
        if settings.sampling is None:
            return self._translate_texts(texts, 0)
        numbered = enumerate(texts, first)  # each text has samples of its own
        found = (self._translate_texts([text], part_id(number, 0)) for number, text in numbered)
        return [answer for [answer] in found]

    def _translate_texts(self, texts: Sequence[str], first: int) -> list[MarkupAnswer]:
        """The translation of each text; `first` is the number of its first sentence."""
        drafts = [self._draft(sanitize(text)) for text in texts]
        self._answer_cache = {}
        self._translate([draft for draft in drafts if draft.segments.lines], first)
        pairs = [
            (draft.segments.parts[place].text, answers[place])
            for draft in drafts
            for answers in [self._answers(draft)]
            for place in draft.linked_parts()
        ]
        run = self._alignment_run() if pairs else None
        linked = iter(link_words(run, pairs, self.alignment or AlignmentSettings()))
        return [
            self._write(draft, list(islice(linked, len(draft.linked_parts())))) for draft in drafts
        ]

    def _draft(self, text: str) -> _MarkupDraft:
        """The text parsed and segmented; without segments if it has nothing to translate."""
        before, after = _surrounding_space(text)
        pieces = parse_markup(text[len(before) : len(text) - len(after)], tags=self.tags)
        escaped = self.tags and CHARACTER_REFERENCE.search(text) is not None
        draft = _MarkupDraft(pieces, before, after, escaped)
        if not escaped and all(isinstance(piece, Leaf) and piece.is_text for piece in pieces):
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
        draft.plain = flatten(draft.pieces, draft.stand_ins)
        found = self.translator.segment(draft.plain.text, split=self.split)
        draft.segments = Segments(
            [one for part in found.parts for one in self._split_to_limit(part)]
        )

    def _split_to_limit(self, segment: Segment) -> list[Segment]:
        """The segment in parts within the model's length limit."""
        if not segment.translatable:
            return [segment]
        tokenizer = self.translator.sources[0]
        ids, surfaces = tokenize_text(segment.text, tokenizer)
        parts = split_long(ids, tokenizer, self.translator.limit)
        if len(parts) == 1 or "".join(surfaces) != segment.text:
            return [segment]
        rest = iter(surfaces)
        texts = ["".join(islice(rest, len(part))) for part in parts]
        return [one for text in texts for one in strip_segments(text)]

    def _translate(self, drafts: Sequence[_MarkupDraft], first: int) -> None:
        """Translate the drafts, again if stand-in names were lost, and cache the answers."""
        while drafts:
            sentences = (one for draft in drafts for one in draft.segments.lines)
            new = dict.fromkeys(one for one in sentences if one not in self._answer_cache)
            answers = self.translator.translate(
                list(new),
                self.settings,
                forbidden=self.forbidden,
                unknown=self.unknown,
                first=first,
                split=False,
            )
            self._answer_cache |= zip(new, answers, strict=True)
            drafts = [draft for draft in drafts if self._retry_lost_names(draft)]

    def _retry_lost_names(self, draft: _MarkupDraft) -> bool:
        """Replace stand-in names that were not copied by the next, or by none; whether any was
        replaced."""
        counts = Counter(protected_texts(draft.pieces))
        written = self._answers(draft)
        sentences = [
            (one.text, answer) for one, answer in zip(draft.segments.parts, written, strict=True)
        ]
        lost = []
        for protected, name in draft.stand_ins.items():
            found = [[len(_find_word(name, text)) for text in pair] for pair in sentences]
            whole = sum(source for source, _ in found) == counts[protected]  # not part of a word
            if not whole or any(source != target for source, target in found):
                lost.append(protected)
        for protected in lost:
            del draft.names[protected][0]
        if lost:
            self._flatten(draft)
        return bool(lost)

    def _answers(self, draft: _MarkupDraft) -> list[str]:
        """The output for each segment, translated or copied; with tags it has no new markup."""
        texts = [self._answer_cache[one].text for one in draft.segments.lines]
        if not self.tags:
            return draft.segments.write(texts)
        written = draft.segments.write([_strip_markup(text) for text in texts])
        return [
            answer if part.translatable else _strip_new_markup(answer)
            for part, answer in zip(draft.segments.parts, written, strict=True)
        ]

    def _write(self, draft: _MarkupDraft, linked: Sequence[WordLinks]) -> MarkupAnswer:
        """The translation of a text, with its markup."""
        if not draft.segments.lines:
            raw = "".join(piece.raw for piece in draft.pieces)
            return MarkupAnswer(f"{draft.before}{raw}{draft.after}")
        answers = self._answers(draft)
        target = "".join(answers)
        protected = sorted(
            (*span, raw)
            for raw, name in draft.stand_ins.items()
            for span in _find_word(name, target)
        )
        for spaced in (False, True):  # protected text may run into the words beside it
            writer = _ProtectedTextWriter(target, protected, draft.escaped, spaced)
            text = writer(0, len(target))
            if linked:
                text = _make_placer(draft, answers, linked, writer).place(draft.plain.nodes)
            if has_same_markup(draft.pieces, parse_markup(text, tags=self.tags)):
                break
        model_answers = tuple(self._answer_cache[one] for one in draft.segments.lines)
        return MarkupAnswer(f"{draft.before}{text.strip()}{draft.after}", model_answers)


@dataclass(frozen=True)
class _ProtectedTextWriter:
    """Writes parts of a translation, with protected text instead of its stand-in names."""

    text: str
    protected: Sequence[tuple[int, int, str]]
    escaped: bool
    spaced: bool  # whether protected text gets spaces around it even if the stand-in has none

    def __call__(self, first: int, last: int) -> str:
        written: list[str] = []
        number = bisect_left(self.protected, (first,))
        while number < len(self.protected) and self.protected[number][1] <= last:
            begin, end, raw = self.protected[number]
            before = " " * (self.spaced and begin > 0 and not self.text[begin - 1].isspace())
            after = " " * (self.spaced and not self.text[end : end + 1].isspace())
            written += self._escape(first, begin), before, raw, after
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
    """The placer of the markup, with the words of all sentences and their links."""
    sources: list[Span] = []
    targets: list[Span] = []
    links = []
    parts = [part.text for part in draft.segments.parts]
    source_offsets, target_offsets = (
        list(accumulate(map(len, texts), initial=0)) for texts in (parts, answers)
    )
    for number, one in zip(draft.linked_parts(), linked, strict=True):
        for name in draft.stand_ins.values():
            _link_stand_ins(name, parts[number], answers[number], one)
        source_words = range(len(sources), len(sources) + len(one.source))
        target_words = range(len(targets), len(targets) + len(one.target))
        links.append(sentence_links(source_words, target_words, one.weights))
        sources += _shifted(one.source, source_offsets[number])
        targets += _shifted(one.target, target_offsets[number])
    return TagPlacer(
        WordSpans(draft.plain.text, sources),
        WordSpans("".join(answers), targets),
        TextLinks(links),
        writer,
        writer.spaced,
    )


def _shifted(words: Sequence[Span], offset: int) -> list[Span]:
    return [Span(word.first + offset, word.last + offset) for word in words]


def _link_stand_ins(name: str, source: str, target: str, linked: WordLinks) -> None:
    """Link each copy of a stand-in name to its original only."""
    columns, rows = (
        [number for number, word in enumerate(words) if text[slice(*word)] == name]
        for text, words in ((source, linked.source), (target, linked.target))
    )
    for row, column in zip(rows, columns, strict=False):
        linked.weights[row], linked.weights[:, column] = 0, 0
        linked.weights[row, column] = 1


def _find_word(word: str, text: str) -> list[Span]:
    """The occurrences of a word in a text; characters of unspaced scripts end it like a space."""
    pattern = rf"(?<!{_WORD_CHARACTER}){re.escape(word)}(?!{_WORD_CHARACTER})"
    return [Span(*found.span()) for found in re.finditer(pattern, text)]


def _surrounding_space(text: str) -> tuple[str, str]:
    """The space at the ends of a text, also as character references."""
    before = _matched(_SPACE, text)
    return before, _matched(_REVERSED_SPACE, text[len(before) :][::-1])[::-1]


def _matched(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.match(text)
    return found[0] if found else ""


def _strip_markup(text: str) -> str:
    """A translation without anything that would be parsed as markup: all markup is the source's."""
    text, before = _TAG_START.sub("< ", text), ""
    while text != before:  # braces may be nested
        text, before = _BRACED.sub(lambda found: found[0].strip("{}"), text), text
    return _PLACEHOLDER_START.sub(r"\g<0> ", text)


def _strip_new_markup(text: str) -> str:
    """Copied text without anything that would be parsed as markup when joined to other text."""
    text = _TAG_START.sub("< ", text)
    return _strip_markup(text) if any(list_markup(parse_markup(text))) else text
