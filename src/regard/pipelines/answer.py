"""What a translator gives back."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from regard.engines.engine import FilledHypothesis
from regard.inspection.word_diff import diff_words, separator
from regard.text.preprocess import TokenizedLine
from regard.text.tokenizer import Tokenizer
from regard.types import Link

if TYPE_CHECKING:  # who asks for neither needs no torch
    from regard.alignment.extraction import AlignmentSettings
    from regard.engines.native.attention_capture import AttentionCapture
    from regard.inspection.interventions import InterventionRequest


TRUNCATED_NOTE = "its translation reached the length limit and may be cut short"


class Candidate(NamedTuple):
    """One of the n best translations of a line."""

    text: str
    score: float
    """What the search ranked it by: log-probability after the penalties; of parts, the sum."""
    log_probability: float


@dataclass(frozen=True, eq=False, repr=False)
class Answer:
    """The translation of one line, and how it came about."""

    source: str
    candidates: tuple[Candidate, ...]
    """The n best, the best first."""
    notes: tuple[str, ...] = ()
    """What was odd about the line."""
    attention: "AttentionCapture | None" = None
    """What was attended to, if asked for; of a line in several parts, that of the first."""
    attentions: "tuple[AttentionCapture | str, ...]" = ()
    """The same for each part of the line in order, and between them what came back as it is."""
    changes: "tuple[InterventionRequest, ...]" = ()
    """What was done to the attention, if asked for; words by their numbers."""
    before: "Answer | None" = None
    """The answer without that."""

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

    def alignment(self, settings: "AlignmentSettings | None" = None) -> frozenset[Link]:
        """Which words of the line and of its translation belong together: (source, target), from 0.

        The words of all its parts are counted through; what came back as it is belongs to itself.
        An answer that was not looked at has no links.
        """
        links: set[Link] = set()
        source = target = 0
        for one in self.attentions:
            if isinstance(one, str):
                num_source_words = num_target_words = len(one.split())
                part_links = frozenset((word, word) for word in range(num_source_words))
            else:
                part_links, cross = one.alignment(settings), one.attention(words=False)
                num_source_words, num_target_words = len(cross.columns.words), len(cross.rows.words)
            links |= {(source + first, target + second) for first, second in part_links}
            source, target = source + num_source_words, target + num_target_words
        return frozenset(links)

    def __repr__(self) -> str:
        notes = f", notes={list(self.notes)}" if self.notes else ""
        more = f", n_best={len(self.candidates)}" if len(self.candidates) > 1 else ""
        return f"<Answer {abbreviate(self.text)!r}, score={self.score:.4f}{more}{notes}>"

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        """What a notebook shows: the translation, what changed in it, and its map if it has one."""
        picture = self.attention._repr_html_() if self.attention else None
        text = escape(self.text) if self.before is None else _diff_html(self.before.text, self.text)
        return f"<p>{text}</p>{picture or ''}"


def build_answer(
    text: str,
    line: TokenizedLine,
    parts: Sequence[Sequence[FilledHypothesis]],
    target: Tokenizer,
    looks: "Sequence[AttentionCapture]" = (),
) -> Answer:
    """The answer to a line whose parts were given these n best translations.

    The n-th best of a line in parts is made of the n-th best of each; a part that has fewer gives
    its last.
    """
    notes = list(line.notes)
    if not all(best[0].hypothesis.finished for best in parts):
        notes.append(TRUNCATED_NOTE)
    ranks = range(max(map(len, parts), default=1))
    candidates = tuple(
        _join_candidate(line, [best[min(rank, len(best) - 1)] for best in parts], target)
        for rank in ranks
    )
    return Answer(
        text,
        candidates,
        tuple(notes),
        looks[0] if looks else None,
        tuple(_looks_and_kept_text(line, looks)) if looks else (),
    )


def abbreviate(text: str, max_length: int = 60) -> str:
    """The text, its end left out where it is longer than `most` characters."""
    return text if len(text) <= max_length else f"{text[: max_length - 1]}…"


def _looks_and_kept_text(
    line: TokenizedLine, looks: "Sequence[AttentionCapture]"
) -> "Iterator[AttentionCapture | str]":
    """The looks into a line's parts, with what came back as it is where it stood."""
    rest, counts = iter(looks), iter(line.counts)
    for part in line.segments.parts:
        if part.says:
            yield from islice(rest, next(counts))
        elif part.text.strip():
            yield part.text


def _diff_html(before: str, after: str) -> str:
    """HTML of `after`, with what it lost and gained against `before`."""
    shown, last = "", ""
    for stretch in diff_words(before, after):
        sides = ("", stretch.after), ("del", stretch.before), ("ins", stretch.after)
        for tag, side in sides[:1] if stretch.same else sides[1:]:
            if side:
                marked = f"<{tag}>{escape(side)}</{tag}>" if tag else escape(side)
                shown, last = f"{shown}{separator(last, side)}{marked}", side
    return shown


def _join_candidate(
    line: TokenizedLine, chosen: Sequence[FilledHypothesis], target: Tokenizer
) -> Candidate:
    """One candidate out of a translation of each part."""
    written = iter([_detokenize(one, target) for one in chosen])
    sentences = [" ".join(islice(written, count)) for count in line.counts]
    return Candidate(
        line.segments.join(sentences),
        sum(one.hypothesis.score for one in chosen),
        sum(one.hypothesis.log_probability for one in chosen),
    )


def _detokenize(filled: FilledHypothesis, target: Tokenizer) -> str:
    """The text of a translation, which has neither line breaks nor tabs."""
    text = target.decode(filled.hypothesis.tokens, filled.unknown)
    return " ".join(text.replace("\t", " ").splitlines())
