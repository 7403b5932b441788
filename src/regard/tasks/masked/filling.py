"""The result of a masked language model: masked places filled, and the attention of its tokens."""

from dataclasses import dataclass
from html import escape
from typing import Any, NamedTuple

from rich.console import RenderableType
from rich.text import Text

from regard.inspection.plots.plain_table import probability_table
from regard.tasks.families.text_look import LikelyToken, TextLook, tokens_html
from regard.tasks.families.viewer_document import ViewerCandidate


class FilledMask(NamedTuple):
    """The likeliest tokens of a masked place, and the text with each in it."""

    tokens: tuple[LikelyToken, ...]  # the likeliest first
    texts: tuple[str, ...]  # other masked places stay masked

    def to_json(self) -> list[dict[str, Any]]:
        document = []
        for one, text in zip(self.tokens, self.texts, strict=True):
            numbers = {key: value for key, value in one._asdict().items() if value is not None}
            document.append({"token": one.name, **numbers, "text": text})
        return document


@dataclass(frozen=True, eq=False, repr=False)
class Filling(TextLook):
    """The likeliest tokens of the masked places of a text, each independent of the others; the text
    of a look may have no masked place.
    """

    kind = "masked"

    masked: str  # the given text; the texts of a pair have ||| between them
    masks: tuple[FilledMask, ...]
    text: str  # with the likeliest token in each place
    follows: float | None = None  # of a pair: how likely the second text follows the first

    @property
    def title(self) -> str:
        """The title of what is shown first."""
        return "the likeliest tokens in masked places" if self.masks else ""

    def answers(self) -> list[RenderableType]:
        lines = list[RenderableType]()
        for number, mask in enumerate(self.masks, start=1):
            if len(self.masks) > 1:
                lines.append(Text(f"place {number}", "dim"))
            lines.append(probability_table("token", mask.tokens))
        if self.follows is not None:
            lines.append(Text(f"the second text follows the first: {self.follows:.4f}"))
        return lines

    def shown_candidates(self) -> list[ViewerCandidate]:
        several = len(self.masks) > 1
        return [
            {"text": f"{number}: {one.name}" if several else one.piece, "score": one.probability}
            for number, mask in enumerate(self.masks, start=1)
            for one in mask.tokens
        ]

    def to_json(self) -> dict[str, Any]:
        """Plain values; the weights of a look in the viewer's format."""
        document: dict[str, Any] = {
            "text": self.masked,
            "filled": self.text,
            "masks": [mask.to_json() for mask in self.masks],
            "notes": list(self.notes),
        }
        if self.follows is not None:
            document["follows"] = self.follows
        return document | self.look_json()

    def shown_texts(self) -> tuple[str, str]:
        """The text, if it has masked places, and its filled version."""
        return self.masked if self.masks else "", self.text

    def __str__(self) -> str:
        return self.text

    def text_html(self) -> str:
        below = "".join(f"<p>{tokens_html(mask.tokens)}</p>" for mask in self.masks)
        return f"<p style='white-space: pre-wrap'>{escape(self.text)}</p>{below}"
