"""What a translator gives back."""

from dataclasses import dataclass
from typing import NamedTuple

from regard.inspection.changes import Wish
from regard.inspection.look import Look


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
    attention: Look | None = None
    """What was attended to, if asked for; of a line in several parts, that of the first."""
    changes: tuple[Wish, ...] = ()
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

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        """What a notebook shows: the translation, and the map if there is one."""
        look = self.attention
        picture = look._repr_svg_() if look and "cross" in look.parts else ""
        text = self.text.replace("&", "&amp;").replace("<", "&lt;")
        return f"<p>{text}</p>{picture}"
