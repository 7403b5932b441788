"""What a translator gives back."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, NamedTuple

from regard.inspection.difference import compare_texts, separator
from regard.nouns import Hypothesis
from regard.serving.lines import Line
from regard.text.tokenizer import Tokenizer

if TYPE_CHECKING:  # who asks for neither needs no torch
    from regard.inspection.changes import Wish
    from regard.inspection.look import Look


CUT_SHORT = "its translation reached the length limit and may be cut short"


class Said(NamedTuple):
    """One of the best translations of a part of a line."""

    hypothesis: Hypothesis
    unknown: Sequence[str] = ()
    """What stands for its unknown words; none: they stay unknown."""


class Candidate(NamedTuple):
    """One of the n best translations of a line."""

    text: str
    score: float
    """What the search ranked it by: log-probability after the penalties; of parts, the sum."""
    log_probability: float


@dataclass(frozen=True, eq=False)
class Answer:
    """The translation of one line, and how it came about."""

    source: str
    candidates: tuple[Candidate, ...]
    """The n best, the best first."""
    notes: tuple[str, ...] = ()
    """What was odd about the line."""
    attention: "Look | None" = None
    """What was attended to, if asked for; of a line in several parts, that of the first."""
    changes: "tuple[Wish, ...]" = ()
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
        return CUT_SHORT in self.notes

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        """What a notebook shows: the translation, what changed in it, and its map if it has one."""
        picture = self.attention._repr_html_() if self.attention else None
        text = escape(self.text) if self.before is None else _marked(self.before.text, self.text)
        return f"<p>{text}</p>{picture or ''}"


def write_answer(
    text: str,
    line: Line,
    parts: Sequence[Sequence[Said]],
    target: Tokenizer,
    attention: "Look | None" = None,
) -> Answer:
    """The answer to a line whose parts were given these n best translations.

    The n-th best of a line in parts is made of the n-th best of each.
    """
    if not parts:
        return Answer(text, (Candidate("", 0.0, 0.0),), tuple(line.notes))
    notes = list(line.notes)
    if not all(best[0].hypothesis.finished for best in parts):
        notes.append(CUT_SHORT)
    ranks = range(min(map(len, parts)))
    candidates = tuple(_join([best[rank] for best in parts], target) for rank in ranks)
    return Answer(text, candidates, tuple(notes), attention)


def _marked(before: str, after: str) -> str:
    """HTML of `after`, with what it lost and gained against `before`."""
    shown, last = "", ""
    for stretch in compare_texts(before, after):
        sides = ("", stretch.after), ("del", stretch.before), ("ins", stretch.after)
        for tag, side in sides[:1] if stretch.same else sides[1:]:
            if side:
                marked = f"<{tag}>{escape(side)}</{tag}>" if tag else escape(side)
                shown, last = f"{shown}{separator(last, side)}{marked}", side
    return shown


def _join(chosen: Sequence[Said], target: Tokenizer) -> Candidate:
    """One candidate out of a translation of each part."""
    written = " ".join(target.decode(one.hypothesis.tokens, one.unknown) for one in chosen)
    return Candidate(
        " ".join(written.replace("\t", " ").splitlines()),
        sum(one.hypothesis.score for one in chosen),
        sum(one.hypothesis.log_probability for one in chosen),
    )
