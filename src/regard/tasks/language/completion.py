"""The result of a language model: continuations of a prompt, and the attention of its tokens."""

from dataclasses import dataclass
from html import escape
from typing import Any, NamedTuple

from rich.console import RenderableType

from regard.inspection.plots.plain_table import probability_table
from regard.tasks.families.text_look import LikelyToken, TextLook, tokens_html
from regard.tasks.families.viewer_document import ViewerCandidate


class Continuation(NamedTuple):
    """One text that follows a prompt."""

    text: str
    log_probability: float  # of its tokens, in nats
    num_tokens: int
    finished: bool  # whether the text ended by itself, not at the limit


@dataclass(frozen=True, eq=False, repr=False)
class Completion(TextLook):
    """The continuations of a prompt, the best first, or samples in order; a look into a text has
    the likeliest next tokens.
    """

    kind = "text"
    no_tree = "the hypotheses of a language model's search are not recorded"

    prompt: str
    continuations: tuple[Continuation, ...]  # a look may have none
    next_tokens: tuple[LikelyToken, ...] = ()  # after `text`, the likeliest first

    @property
    def text(self) -> str:
        """The prompt and its first continuation."""
        return self.prompt + "".join(one.text for one in self.continuations[:1])

    @property
    def title(self) -> str:
        """The title of what is shown first."""
        return "the likeliest next tokens"

    def answers(self) -> list[RenderableType]:
        return [probability_table("token", self.next_tokens)]

    def shown_candidates(self) -> list[ViewerCandidate]:
        return [{"text": one.piece, "score": one.probability} for one in self.next_tokens]

    def to_json(self) -> dict[str, Any]:
        """Plain values; the weights of a look in the viewer's format."""
        document: dict[str, Any] = {
            "prompt": self.prompt,
            "continuations": [one._asdict() for one in self.continuations],
            "notes": list(self.notes),
        }
        if self.attention is not None:
            document["next_tokens"] = [one._asdict() for one in self.next_tokens]
        return document | self.look_json()

    def shown_texts(self) -> tuple[str, str]:
        """The text with its likeliest next token."""
        return "", with_next(self.text, *self.next_tokens[:1])

    def __str__(self) -> str:
        return self.text

    def text_html(self) -> str:
        below = f"<p>next: {tokens_html(self.next_tokens)}</p>" if self.next_tokens else ""
        return f"<p style='white-space: pre-wrap'>{escape(self.text)}</p>{below}"


def with_next(text: str, *tokens: LikelyToken) -> str:
    """A text with the token that comes next, if any."""
    return " → ".join([text, *(one.name for one in tokens)])
