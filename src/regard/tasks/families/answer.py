"""The result of a translator."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from regard.inspection.word_diff import diff_words, separator
from regard.text.preprocess import TokenizedLine
from regard.text.segmentation import Segments
from regard.text.tokenizer import Tokenizer
from regard.text.word_units import count_units
from regard.types import Hypothesis, Link

if TYPE_CHECKING:  # these import torch
    from regard.alignment.extraction import AlignmentSettings
    from regard.engines.native.attention_capture import AttentionCapture
    from regard.inspection.interventions import InterventionRequest


T = TypeVar("T")
TRUNCATED_NOTE = "its translation reached the length limit and may be cut short"


class Candidate(NamedTuple):
    """One of the n best translations of a line."""

    text: str
    score: float  # of the search: log-probability with penalties, summed over several parts
    log_probability: float

    @classmethod
    def join(cls, text: str, parts: "Sequence[Candidate | Hypothesis]") -> "Candidate":
        """The candidate of a text whose parts have these scores."""
        return cls(text, sum(p.score for p in parts), sum(p.log_probability for p in parts))


@dataclass(frozen=True, eq=False, repr=False)
class Answer:
    """The translation of one line, and the attention it was made with if requested."""

    source: str
    candidates: tuple[Candidate, ...]  # the n best, the best first
    notes: tuple[str, ...] = ()  # warnings about the line
    attention: "AttentionCapture | None" = None  # if requested; of the first of several parts
    ranked_attentions: "tuple[tuple[AttentionCapture | str, ...], ...]" = ()
    """For each candidate, the attention of all its parts, and copied text between them."""
    changes: "tuple[InterventionRequest, ...]" = ()  # the interventions, words by number
    before: "Answer | None" = None  # the answer without interventions

    @property
    def text(self) -> str:
        """The best translation."""
        return self.candidates[0].text

    @property
    def score(self) -> float:
        """Its score."""
        return self.candidates[0].score

    @property
    def cut_short(self) -> bool:
        """Whether it reached the limit on its length."""
        return TRUNCATED_NOTE in self.notes

    @property
    def attentions(self) -> "tuple[AttentionCapture | str, ...]":
        """The attention of all parts of the best translation, and copied text between them."""
        return self.ranked_attentions[0] if self.ranked_attentions else ()

    def alignment(
        self, settings: "AlignmentSettings | None" = None, *, rank: int = 0
    ) -> frozenset[Link]:
        """The word links (source, target), from 0, between the line and a candidate, by default the
        best; empty without attention. Copied words are aligned with themselves.
        """
        links: set[Link] = set()
        source = target = 0
        for capture in self.ranked_attentions[rank] if self.ranked_attentions else ():
            if isinstance(capture, str):
                source_size = target_size = count_units(capture)
                part_links = frozenset((word, word) for word in range(source_size))
            else:
                part_links, cross = capture.alignment(settings), capture.attention(words=False)
                source_size, target_size = sum(cross.columns.sizes), sum(cross.rows.sizes)
            links |= {(source + first, target + second) for first, second in part_links}
            source, target = source + source_size, target + target_size
        return frozenset(links)

    def __repr__(self) -> str:
        notes = f", notes={list(self.notes)}" if self.notes else ""
        more = f", n_best={len(self.candidates)}" if len(self.candidates) > 1 else ""
        text = self.text if len(self.text) <= 60 else f"{self.text[:59]}…"
        return f"<Answer {text!r}, score={self.score:.4f}{more}{notes}>"

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        """For notebooks: the translation, its changes, and its attention map if it has one."""
        return self.text_html() + self.picture_html()

    def text_html(self) -> str:
        """The translation and its changes."""
        text = escape(self.text) if self.before is None else _diff_html(self.before.text, self.text)
        return f"<p>{text}</p>"

    def picture_html(self) -> str:
        """The figure of the attention; empty if there is none."""
        return (self.attention._repr_html_() if self.attention else None) or ""


def build_answer(
    text: str,
    line: TokenizedLine,
    parts: Sequence[Sequence[Hypothesis]],
    target: Tokenizer,
    looks: "Sequence[Sequence[AttentionCapture]]" = (),
) -> Answer:
    """The answer to a line from the n best of each part, with their attention if requested: the
    n-th best joins the n-th best of all parts (of a part with fewer, the last).
    """
    notes = list(line.notes)
    if not all(best[0].finished for best in parts):
        notes.append(TRUNCATED_NOTE)
    candidates = tuple(_join_candidate(line, chosen, target) for chosen in _by_rank(parts))
    if not looks:
        return Answer(text, candidates, tuple(notes))
    ranked = (tuple(_captures_and_copied_text(line, chosen)) for chosen in _by_rank(looks))
    return Answer(text, candidates, tuple(notes), looks[0][0], tuple(ranked))


def join_answers(text: str, segments: Segments, answers: Sequence[Answer]) -> Answer:
    """The answer to a text, given those to its sentences, joined by rank as in `build_answer`."""
    candidates = tuple(
        Candidate.join(segments.join([one.text for one in chosen]), chosen)
        for chosen in _by_rank([answer.candidates for answer in answers])
    )
    notes = dict.fromkeys(note for answer in answers for note in answer.notes)
    return Answer(text, candidates, tuple(notes))


def _by_rank(n_best: Sequence[Sequence[T]]) -> Iterator[list[T]]:
    """The best of each list, then the second best, and so on; the last of a list with fewer."""
    for rank in range(max(map(len, n_best), default=1)):
        yield [best[min(rank, len(best) - 1)] for best in n_best]


def _captures_and_copied_text(
    line: TokenizedLine, looks: "Sequence[AttentionCapture]"
) -> "Iterator[AttentionCapture | str]":
    """The captures of a line's parts and the copied text between them, in order."""
    rest, counts = iter(looks), iter(line.counts)
    for part in line.segments.parts:
        if part.translatable:
            yield from islice(rest, next(counts))
        elif part.text.strip():
            yield part.text


def _diff_html(before: str, after: str) -> str:
    """HTML of `after`, with the words deleted from and inserted into `before`."""
    shown, last = "", ""
    for stretch in diff_words(before, after):
        sides = ("", stretch.after), ("del", stretch.before), ("ins", stretch.after)
        for tag, side in sides[:1] if stretch.same else sides[1:]:
            if side:
                marked = f"<{tag}>{escape(side)}</{tag}>" if tag else escape(side)
                shown, last = f"{shown}{separator(last, side)}{marked}", side
    return shown


def _join_candidate(
    line: TokenizedLine, chosen: Sequence[Hypothesis], target: Tokenizer
) -> Candidate:
    """The candidate of a line, given a translation of each part."""
    decoded = (target.decode(one.tokens, one.replacements) for one in chosen)
    texts = (" ".join(text.replace("\t", " ").splitlines()) for text in decoded)
    sentences = [" ".join(islice(texts, count)) for count in line.counts]
    return Candidate.join(line.segments.join(sentences), chosen)
