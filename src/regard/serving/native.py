"""The engine that can do everything: our own models, search and recorder, with torch."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from torch import nn

from regard.decoding.many import Member, search_many
from regard.decoding.observe import Audience, Observe
from regard.decoding.rules import Wording
from regard.decoding.tree import Growing
from regard.errors import SettingsError
from regard.inspection.changes import Wish, grant, name_words
from regard.inspection.record import chain
from regard.layers.quantised import Precision
from regard.nouns import Hypothesis
from regard.recipes.memory import available_memory
from regard.recipes.run_folder import Run, load_run, pick_device
from regard.serving.answer import Answer, Said
from regard.serving.changing import check_changes
from regard.serving.engine import Spoken, Wanted, forbidden_phrases
from regard.serving.helping import make_crew
from regard.serving.lines import Line, part_number
from regard.serving.looking import look_into, with_tree
from regard.serving.measured import Choice, count_cores
from regard.serving.unknown_words import make_filler
from regard.types import Watch

if TYPE_CHECKING:  # it imports this module, late
    from regard.serving.translator import Translator

BUDGET = 16_384
"""Positions searched at a time, counted once for each hypothesis; where nothing was measured."""
CPU_BUDGET = 4096
"""The same on a CPU, whose caches are to hold them."""
PARAMETERS = 256
"""Of a model for each byte of a GPU's memory that one of them takes: who is wide and deep leaves
more behind. The paper's base model is the measure.

In float32 a token of an answer takes 24 KiB in its six layers; there is room for twice as many as
there are, which is thrice while they move to a larger one, and answers are up to twice as long as
their sources: 144 KiB. The logits of 32,000 pieces, before and behind a softmax, are 250 KiB for a
hypothesis, and so 62 KiB for each position of the shortest sources (`SHORTEST`). That is 206 KiB,
and it has 61 million parameters.
"""
A_POSITION = 64 * 1024
"""The least bytes for each of them: what small models have fewer parameters for is their width,
which counts twice in parameters and once here."""


class Native:
    """One run, or several with one target vocabulary that vote."""

    def __init__(self, runs: Sequence[Run], choice: Choice | None = None) -> None:
        self.runs = tuple(runs)
        self._target = runs[0].tokenizers.target
        self._budget, workers = own_budget([run.model for run in runs]), count_cores()
        self.on_cpu = next(runs[0].model.parameters()).device.type == "cpu"
        if choice is not None and choice.engine == "native" and self.on_cpu:
            self._budget, workers = choice.budget, choice.workers  # what was measured on a CPU
        self._crew = make_crew(runs, workers)

    def refuses(self, wanted: Wanted) -> str | None:
        return None

    def speak(self, lines: Sequence[Sequence[Line]], wanted: Wanted) -> list[Spoken]:
        watch = chain(*wanted.changes) if wanted.changes else None
        filler = None
        if wanted.unknown is not None:
            filler = make_filler(self.runs, wanted.unknown, wanted.prefix, wanted.forbidden, watch)
        check_changes(self.runs, wanted.changes, lines[0])
        found = self._search(lines, wanted, watch)
        if filler is None:
            said = [[[Said(one) for one in best] for best in parts] for parts in found]
        else:
            said = filler.fill_lines(lines[self.runs.index(filler.run)], found)
        return [
            Spoken(
                parts,
                look_into(self.runs[0], line, [best[0] for best in parts], watch)
                if wanted.look
                else (),
            )
            for line, parts in zip(lines[0], said, strict=True)
        ]

    def _search(
        self, lines: Sequence[Sequence[Line]], wanted: Wanted, watch: Watch | None
    ) -> list[list[list[Hypothesis]]]:
        """The n best translations of each part of each line."""
        places = [
            (number, part)
            for number, line in enumerate(lines[0], wanted.first)
            for part in range(len(line.parts))
        ]
        begun = self._target.encode([wanted.prefix])[0]
        found = search_many(
            self._members(lines),
            wanted.settings,
            budget=self._budget,
            wording=Wording(
                [[] if part else begun for _, part in places],
                forbidden_phrases(wanted.forbidden, self._target),
            ),
            numbers=[part_number(*place) for place in places],
            watch=watch,
            observe=_together(wanted.observers),
            crew=self._crew,
        )
        following = iter(found)
        return [[next(following) for _ in line.parts] for line in lines[0]]

    def _members(self, lines: Sequence[Sequence[Line]]) -> list[Member]:
        """Each model with the parts of all lines in its own tokens."""
        return [
            Member(run.model, [part for line in own for part in line.parts])
            for run, own in zip(self.runs, lines, strict=True)
        ]


def open_runs(
    paths: Sequence[str | Path], *, device: str, weights: str, precision: str = "auto"
) -> list[Run]:
    """The runs in some folders, ready on the device of that name; `auto` is float32."""
    known = get_args(Precision)
    chosen = next((one for one in known if precision in (one, "auto")), None)
    if chosen is None:
        raise SettingsError(
            f"--precision {precision} is CTranslate2's; the native engine has {', '.join(known)}"
        )
    where = pick_device(device)
    return [load_run(path, device=where, weights=weights, precision=chosen) for path in paths]


def look(
    translator: "Translator",
    text: str,
    wanted: Wanted,
    changes: Sequence[Wish],
    split: bool | None,
    *,
    tree: bool,
) -> Answer:
    """See `Translator.look`."""
    if not changes:
        return _look(translator, text, wanted, split, tree=tree)
    plain = _look(translator, text, wanted, split)
    if plain.attention is None:
        raise SettingsError(f"{text!r}: there is no sentence in it whose attention could change")
    cross = plain.attention.parts.get("cross")
    wishes = name_words(changes, cross)
    granted = grant(wishes, cross)
    changed = _look(translator, text, replace(wanted, changes=granted), split, tree=tree)
    return replace(changed, changes=wishes, before=plain)


def _look(
    translator: "Translator", text: str, wanted: Wanted, split: bool | None, *, tree: bool = False
) -> Answer:
    """One answer with its attention, and with the search it came from where asked for."""
    growing = Growing()
    observers = (*wanted.observers, growing) if tree else wanted.observers
    [answer] = translator.answer(
        [text], replace(wanted, look=True, observers=observers), split=split
    )
    if not tree or answer.attention is None:
        return answer
    grown = growing.trees[part_number(0, 0)]
    first = with_tree(answer.attention, grown, translator.target)
    kept = [first if one is answer.attention else one for one in answer.attentions]
    return replace(answer, attention=first, attentions=tuple(kept))


def has_gpu() -> bool:
    """Whether the device `auto` is a GPU here."""
    return pick_device("auto").type == "cuda"


def own_budget(models: Sequence[nn.Module]) -> int:
    """Positions to search at a time, where these are: on a GPU as many as its memory may hold."""
    parameters = [x for model in models for x in model.parameters()]
    where = parameters[0].device
    if where.type == "cuda":
        each = max(A_POSITION, sum(x.numel() for x in parameters) // PARAMETERS)
        return max(BUDGET, available_memory(where) // each)
    return CPU_BUDGET if where.type == "cpu" else BUDGET


def _together(observers: Sequence[Observe]) -> Observe | None:
    """One that stands for all; None: nobody is to be told."""
    if len(observers) > 1:
        return Audience(*observers)
    return next(iter(observers), None)
