"""A saved model as a function of text."""

from collections.abc import Mapping, Sequence
from copy import copy
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from regard.decoding.settings import DecodingSettings
from regard.errors import SearchError
from regard.serving.answer import Answer, write_answer
from regard.serving.engine import Engine, Wanted
from regard.serving.lines import mend, read_together
from regard.serving.searching import search_settings

if TYPE_CHECKING:  # all of it stands on torch, which takes seconds to import
    from regard.decoding.observe import Observe
    from regard.inspection.changes import Change, Wish
    from regard.recipes.run_folder import Run
    from regard.serving.native import Native


class Translator:
    """One model, or several with one target vocabulary that vote, as a function of text."""

    def __init__(self, runs: "Sequence[Run]") -> None:
        if not runs:
            raise ValueError("a translator needs at least one run")
        targets = {run.tokenizers.target.fingerprint(): run.folder.path for run in runs}
        if len(targets) > 1:
            raise SearchError(
                "models that translate together must share one target vocabulary; these do not: "
                + ", ".join(map(str, targets.values()))
            )
        self.sources = tuple(run.tokenizers.source for run in runs)
        """The source vocabulary of each model."""
        self.target = runs[0].tokenizers.target
        self.settings = runs[0].recipe.decoding
        self.limit = min(run.longest for run in runs)
        self._native: Native = with_torch().Native(runs)
        self._observers: tuple[Observe, ...] = ()

    @property
    def runs(self) -> "tuple[Run, ...]":
        """The models themselves."""
        return self._native.runs

    def observed(self, observe: "Observe") -> Self:
        """The same translator, whose searches tell `observe` what they do.

        It knows the parts of lines by the numbers that `part_number` gives.
        """
        other = copy(self)
        other._observers = (*self._observers, observe)
        return other

    def __call__(
        self,
        text: str,
        *,
        beam: int | None = None,
        look: bool = False,
        settings: DecodingSettings | None = None,
        changes: "Sequence[Wish]" = (),
        unknown: Mapping[str, str] | None = None,
    ) -> Answer:
        """The translation of one line; `look` keeps what was attended to, as `changes` do."""
        wanted = search_settings(settings or self.settings, beam=beam)
        if look or changes:
            return self.look(text, wanted, changes=changes, unknown=unknown)
        return self.translate([text], wanted, unknown=unknown)[0]

    def look(
        self,
        text: str,
        settings: DecodingSettings | None = None,
        *,
        changes: "Sequence[Wish]" = (),
        tree: bool = False,
        unknown: Mapping[str, str] | None = None,
    ) -> Answer:
        """The translation of one line with what was attended to.

        With `changes` it is what becomes of the translation when a head is silenced, a distribution
        flattened or a word forced to look elsewhere, and `before` holds the one without them. With
        `tree` all hypotheses of the search are kept; of a line in several parts, the first's.
        """
        answer: Answer = with_torch().look(self, text, settings, changes, unknown, tree=tree)
        return answer

    def translate(
        self,
        texts: Sequence[str],
        settings: DecodingSettings | None = None,
        *,
        prefix: str = "",
        forbidden: Sequence[str] = (),
        look: bool = False,
        changes: "Sequence[Change]" = (),
        first: int = 0,
        unknown: Mapping[str, str] | None = None,
    ) -> list[Answer]:
        """The translation of each text, in order: N in, N out.

        Line breaks and tabs, in a text or in what a model makes of it, become spaces. Answers begin
        with `prefix` and hold none of the `forbidden` words. `changes` are made to the attention.
        `first` is the number of the first text, by which samples are drawn: texts that are given
        in several calls are then sampled as in one.

        With `unknown`, a dictionary, a model may say that a word is unknown to it. In its place
        stands the entry of the source word that it attends to, or where there is none a copy of
        that word: an empty dictionary copies all. `⁇` shows where unknown words are allowed by the
        settings alone.
        """
        settings = search_settings(settings or self.settings, unknown=unknown is not None)
        wanted = Wanted(settings, prefix, forbidden, look, changes, first, unknown, self._observers)
        texts = [mend(text) for text in texts]
        lines = read_together(texts, self.sources, self.limit)
        spoken = self._engine(wanted).speak(lines, wanted)
        return [
            write_answer(text, line, said.parts, self.target, said.attention)
            for text, line, said in zip(texts, lines[0], spoken, strict=True)
        ]

    def _engine(self, wanted: Wanted) -> Engine:
        """The one to do what is wanted."""
        return self._native


def load(
    path: str | Path, *others: str | Path, device: str = "auto", weights: str = "model"
) -> Translator:
    """The translator in a run's folder; with `others`, an ensemble."""
    return Translator(with_torch().open_runs((path, *others), device=device, weights=weights))


def with_torch() -> Any:
    """The module of the native engine, imported when it is first asked for."""
    return import_module("regard.serving.native")
