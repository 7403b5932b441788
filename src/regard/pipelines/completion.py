"""The result of a language model: what follows a prompt, and what its tokens looked at."""

from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from itertools import product
from typing import Any, NamedTuple

from matplotlib.figure import Figure
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from regard.engines.native.attention_capture import AttentionCapture, PlotKind
from regard.errors import SettingsError
from regard.inspection.interventions import Flattened, Silenced
from regard.inspection.plots.figure import ThemeName, notebook_html
from regard.inspection.plots.maps import MAX_DRAWN_WORDS, describe_head
from regard.inspection.recording.attention_map import AttentionMaps
from regard.inspection.viewer.html_page import render_page
from regard.pipelines.answer import Answer, Candidate
from regard.pipelines.viewer_document import HeadAblation, encode_maps, viewer_document

MAX_SHOWN_WORDS = 40  # of a map in the terminal
SPACE, LINE_END = "▁", "<0x0A>"  # as `Tokenizer.pieces` has them


class Continuation(NamedTuple):
    """One text that follows a prompt."""

    text: str
    log_probability: float  # of its tokens, in nats
    num_tokens: int
    finished: bool  # whether the text ended, rather than at the limit


class NextToken(NamedTuple):
    """A token that may follow a text."""

    piece: str
    probability: float
    before: float | None = None  # the probability without interventions

    @property
    def name(self) -> str:
        """The piece as people read it, as the viewer shows it."""
        if self.piece == LINE_END:
            return "↵"
        return self.piece.replace(SPACE, " ").strip() or "␣"


@dataclass(frozen=True, eq=False, repr=False)
class Completion:
    """What follows a prompt: the best continuation, or the first sample, first.

    A look into a text has its attention, which a notebook displays, and the likeliest next tokens.
    """

    prompt: str
    continuations: tuple[Continuation, ...]  # a look may have none
    notes: tuple[str, ...] = ()
    attention: AttentionCapture | None = None
    next_tokens: tuple[NextToken, ...] = ()  # behind `text`, the likeliest first
    changes: tuple[Silenced | Flattened, ...] = ()
    ablate: Callable[[], list[HeadAblation]] = list
    """The text with its likeliest next token without each head, which a page can show."""
    before: "Completion | None" = None  # without interventions

    @property
    def text(self) -> str:
        """The prompt and its first continuation."""
        return self.prompt + "".join(one.text for one in self.continuations[:1])

    @property
    def title(self) -> str:
        """What is shown first."""
        return "the likeliest next tokens"

    def show(
        self,
        *,
        layer: int | None = None,
        head: int | None = None,
        every: bool = False,
        pieces: bool = False,
    ) -> RenderableType:
        """For the terminal: the likeliest next tokens, and a map whose rows look at its columns."""
        maps = self._last(MAX_SHOWN_WORDS, pieces=pieces)
        counts = maps.weights.shape[:2]
        chosen = product(*map(range, counts)) if every else [(layer, head)]
        cut = f", the last {len(maps.rows.pieces)} {'tokens' if pieces else 'words'} alone"
        lines: list[RenderableType] = [self._next_table()]
        for place in chosen:
            title = describe_head(maps, *place) + (cut if maps.omitted else "")
            shown = AttentionCapture({"decoder": maps}).show(
                "decoder", layer=place[0], head=place[1], words=False
            )
            lines += [Text(title, "dim"), shown]
        return Group(*lines)

    def plot(
        self,
        *,
        kind: PlotKind | None = None,
        layer: int | None = None,
        head: int | None = None,
        every: bool = False,
        pieces: bool = False,
        theme: ThemeName = "light",
    ) -> Figure:
        """A figure of one layer and head, by default the mean, or a grid of every one; `kind` as
        in `AttentionCapture.plot`.
        """
        kind = kind or ("grid" if every else "map")
        if kind == "tree":
            raise SettingsError("tree: the hypotheses of a language model's search are not kept")
        capture = AttentionCapture({"decoder": self._last(MAX_DRAWN_WORDS, pieces=pieces)})
        return capture.plot("decoder", kind=kind, layer=layer, head=head, words=False, theme=theme)

    def page(self, model: str) -> str:
        """One offline page of the text, which answers the pointer; every layer and head in it."""
        ablations = self.ablate() if self.before is None else []
        document = viewer_document(self._answer(), model=model, without=ablations)
        tokens = [{"text": one.piece, "score": one.probability} for one in self.next_tokens]
        return render_page({**document, "kind": "text", "candidates": tokens})

    def to_json(self) -> dict[str, Any]:
        """Plain values; the weights of a look as the viewer has them."""
        document: dict[str, Any] = {
            "prompt": self.prompt,
            "continuations": [one._asdict() for one in self.continuations],
            "notes": list(self.notes),
        }
        if self.attention is not None:
            maps = self.required_attention().attention("decoder", words=False)
            document["next_tokens"] = [one._asdict() for one in self.next_tokens]
            document["before"] = None if self.before is None else self.before.text
            document["attention"] = {"pieces": list(maps.rows.pieces), **encode_maps(maps)}
        return document

    def required_attention(self) -> AttentionCapture:
        """The attention, or an error if it was not recorded."""
        if self.attention is None:
            raise SettingsError("the attention was not recorded: ask for it with look(…)")
        return self.attention

    def _last(self, count: int, *, pieces: bool) -> AttentionMaps:
        """The maps of the last words or pieces."""
        return self.required_attention().attention("decoder", words=not pieces).last(count)

    def _next_table(self) -> Table:
        changed = self.before is not None
        table = Table(box=None, pad_edge=False)
        for column in ("token", "probability", *(["before"] if changed else [])):
            table.add_column(column, justify="left" if column == "token" else "right")
        for one in self.next_tokens:
            numbers = [one.probability, *([one.before or 0.0] if changed else [])]
            table.add_row(Text(one.piece), *(f"{number:.4f}" for number in numbers))
        return table

    def _answer(self) -> Answer:
        """What the viewer shows: the text with its likeliest next token, and the attention."""
        first = with_next(self.text, *self.next_tokens[:1])
        before = None if self.before is None else self.before._answer()
        candidates = (Candidate(first, 0.0, 0.0),)
        attention = self.required_attention()
        return Answer("", candidates, self.notes, attention, changes=self.changes, before=before)

    def __repr__(self) -> str:
        return f"<Completion {self.text!r}>"

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        picture = ""
        if self.attention is not None:
            picture = notebook_html(lambda theme: self.plot(theme=theme), alt="attention")
        tokens = ", ".join(f"{escape(one.piece)} {one.probability:.0%}" for one in self.next_tokens)
        below = f"<p>next: {tokens}</p>" if tokens else ""
        return f"<p style='white-space: pre-wrap'>{escape(self.text)}</p>{below}{picture}"


def with_next(text: str, *tokens: NextToken) -> str:
    """A text with the token that comes next, if any."""
    return " → ".join([text, *(one.name for one in tokens)])
