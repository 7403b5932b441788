"""One text translated with its attention recorded, and changed on request."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, NamedTuple

from matplotlib.figure import Figure
from rich.console import Group, RenderableType
from rich.text import Text

from regard.decoding.tracing.search_tree import SearchTreeObserver
from regard.engines.native.attention_capture import AttentionCapture, PlotKind, show_maps
from regard.engines.translation_request import TranslationRequest
from regard.errors import SettingsError
from regard.inspection.interventions import (
    HeadCounts,
    InterventionRequest,
    Silenced,
    list_head_ablations,
    resolve_requests,
)
from regard.inspection.plots.figure import ThemeName
from regard.inspection.plots.plain_table import plain_table
from regard.inspection.plots.terminal import render_tree
from regard.inspection.recording.attention_map import Part
from regard.inspection.viewer.html_page import notebook_page, render_page
from regard.iterate import Track, untracked
from regard.tasks.families.answer import Answer
from regard.tasks.families.pipeline import TaskAnswer
from regard.tasks.families.viewer_document import HeadAblation, ablated_answers, viewer_document
from regard.tasks.translation.pipeline import Translator
from regard.text.preprocess import part_id


@dataclass(frozen=True, eq=False, repr=False)
class TranslationLook(TaskAnswer[AttentionCapture], Answer):
    """A translation with its attention, for the terminal, as a figure and as a page."""

    alt = "attention"
    title = ""  # each map has its own

    model: str = ""  # the name of its run

    __repr__ = Answer.__repr__
    text_html = Answer.text_html

    @property
    def heads(self) -> HeadCounts:
        return {} if self.attention is None else self.attention.heads

    def show(
        self,
        *,
        part: Part = "cross",
        layer: int | None = None,
        head: int | None = None,
        every: bool = False,
        pieces: bool = False,
        tree: bool = False,
    ) -> RenderableType:
        """For the terminal: the n best, maps in which rows attend to columns, and with `tree` the
        hypotheses of the search.
        """
        capture = self.required_attention()
        lines: list[RenderableType] = [*self._n_best_table()]
        if capture.parts or capture.tree is None:
            maps = capture.attention(part, words=not pieces)
            lines += show_maps(maps, layer, head, every=every)
        else:
            lines.append(Text("this model does not attend: there is no map to show", "dim"))
        if tree and capture.tree is not None:
            lines += [Text(""), render_tree(capture.tree, capture.tree_pieces)]
        return Group(*lines)

    def plot(
        self,
        *,
        part: Part = "cross",
        kind: PlotKind | None = None,
        layer: int | None = None,
        head: int | None = None,
        every: bool = False,
        pieces: bool = False,
        tree: bool = False,
        theme: ThemeName = "light",
    ) -> Figure:
        """A figure of one layer and head, by default the mean, or a grid of all; `kind` as in
        `AttentionCapture.plot`. `tree` has no effect here: use the kind "tree".
        """
        kind, words = kind or ("grid" if every else "map"), not pieces
        return self.required_attention().plot(
            part, kind=kind, layer=layer, head=head, words=words, theme=theme
        )

    def render(self, model: str, without: Sequence[HeadAblation]) -> str:
        return render_page(viewer_document(self, model=model, without=without))

    def picture_html(self) -> str:
        """The interactive viewer."""
        figure = Answer.picture_html(self)
        return notebook_page(self.render(self.model, []), figure) if figure else figure

    def to_json(self) -> dict[str, Any]:
        """What the viewer shows, except the translations without each head."""
        return {**viewer_document(self, model=self.model)}

    def look_json(self) -> dict[str, Any]:
        return self.to_json()

    def required_attention(self) -> AttentionCapture:
        """The attention; an error if there is none."""
        if self.attention is None:
            raise SettingsError("the sentence is blank: there is nothing to look at")
        return self.attention

    def _n_best_table(self) -> list[RenderableType]:
        if len(self.candidates) == 1:
            return []
        rows = [(f"{one.score:.3f}", Text(one.text)) for one in self.candidates]
        return [plain_table("score", "of the n best", right=("score",), rows=rows)]


class LookedText(NamedTuple):
    """A text to translate with its attention."""

    text: str
    split: bool | None = None  # as in `Translator.translate`
    notes: tuple[str, ...] = ()


def select_text(
    translator: Translator, given: str | Sequence[str], number: int | None, *, split: bool | None
) -> LookedText:
    """A text, or its sentence of a number, from 0, with a note if there are others."""
    if not (isinstance(given, str) or given):
        raise SettingsError("give a SENTENCE, or one of --heads, --distances, --positions")
    text = given if isinstance(given, str) else " ".join(given)
    if number is None:
        return LookedText(text, split)
    if split is False or not text.strip():
        return LookedText(text, split=False)
    found = translator.segment(text, split=split).lines
    if not found:
        raise SettingsError(
            f"{text!r}: there is no sentence in it, so it is copied unchanged; to translate it "
            "anyway give --whole-lines"
        )
    if number >= len(found):
        raise SettingsError(f"--sentence {number}: there are {len(found)}, counted from 0")
    others = (
        f"sentence {number} of {len(found)}, counted from 0; --sentence N shows another, "
        "--whole-lines all of them as one"
    )
    return LookedText(found[number], False, (others,) if len(found) > 1 else ())


def look_at(
    translator: Translator,
    chosen: LookedText,
    request: TranslationRequest,
    changes: Sequence[InterventionRequest],
    *,
    tree: bool = False,
    track: Track = untracked,
) -> TranslationLook:
    """The answer to a text with its attention under `changes`, and with `tree` its search.

    `track` shows the progress of the translations without each head, once a page needs them.
    """
    if changes:
        plain = look_at(translator, chosen._replace(notes=()), request, ())
        if plain.attention is None:
            raise SettingsError(
                f"{chosen.text!r}: there is no sentence in it whose attention could change"
            )
        cross = plain.attention.parts.get("cross")
        resolved, interventions = resolve_requests(changes, cross)
        request = replace(request, changes=interventions)
        changed = look_at(translator, chosen, request, (), tree=tree)
        return replace(changed, changes=tuple(resolved), before=plain)
    observer = SearchTreeObserver()
    observers = (*request.observers, observer) if tree else request.observers
    recorded = replace(request, look=True, scores=True, observers=observers)
    [answer] = translator.answer([chosen.text], recorded, split=chosen.split)
    if tree and answer.attention is not None:
        answer = _with_tree(answer, answer.attention, observer, translator)
    found = {field.name: getattr(answer, field.name) for field in fields(answer)}
    found["notes"] = (*chosen.notes, *answer.notes)
    ablate = partial(ablate_each_head, translator, answer, request, track, split=chosen.split)
    name = translator.folders[0].resolve().name
    return TranslationLook(**found, model=name, ablate=ablate)


def _with_tree(
    answer: Answer, first: AttentionCapture, observer: SearchTreeObserver, translator: Translator
) -> Answer:
    """The answer with the search of its first part."""
    with_tree = first.with_search_tree(observer.trees[part_id(0, 0)], translator.target)
    best, *others = answer.ranked_attentions
    best = tuple(with_tree if one is first else one for one in best)
    return replace(answer, attention=with_tree, ranked_attentions=(best, *others))


def list_answer_ablations(answer: Answer) -> list[Silenced]:
    """Each head and layer whose attention was recorded in the answer."""
    return list_head_ablations(answer.attention.heads if answer.attention else {})


def ablate_each_head(
    translator: Translator,
    answer: Answer,
    request: TranslationRequest | None = None,
    track: Track = untracked,
    *,
    split: bool | None = False,
) -> list[HeadAblation]:
    """The translations of `answer.source` without each of `list_answer_ablations(answer)`, by a
    `request`, or by default the run's; `split` is as in `Translator.translate`.
    """
    plain = request or TranslationRequest(translator.settings)

    def text_without(one: Silenced) -> str:
        [ablated] = translator.answer([answer.source], replace(plain, changes=[one]), split=split)
        return ablated.text

    return ablated_answers(track(list_answer_ablations(answer)), text_without)
