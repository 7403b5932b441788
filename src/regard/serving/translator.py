"""A saved model as a function of text."""

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Self

from regard.decoding.many import Member, search_many
from regard.decoding.observe import Audience, Observe
from regard.decoding.search import DecodingSettings
from regard.decoding.tree import Growing
from regard.errors import SearchError, SettingsError
from regard.inspection.changes import Change, Wish, grant, name_words
from regard.inspection.record import chain
from regard.recipes.run_folder import Run, load_run, pick_device
from regard.serving.answer import Answer, write_answer
from regard.serving.changing import check_changes
from regard.serving.lines import Line, mend, part_number, read_together, token_limit
from regard.serving.looking import look_into, with_tree
from regard.serving.searching import search_settings
from regard.serving.unknown_words import Said, make_filler
from regard.text.special import UNK
from regard.types import Hypothesis, Watch

BUDGET = 16_384
"""Positions searched at a time, counted once for each hypothesis."""


class Translator:
    """One model, or several with one target vocabulary that vote, as a function of text."""

    def __init__(self, runs: Sequence[Run]) -> None:
        if not runs:
            raise ValueError("a translator needs at least one run")
        targets = {run.tokenizers.target.fingerprint(): run.folder.path for run in runs}
        if len(targets) > 1:
            raise SearchError(
                "models that translate together must share one target vocabulary; these do not: "
                + ", ".join(map(str, targets.values()))
            )
        self.runs = tuple(runs)
        self.target = runs[0].tokenizers.target
        self.settings = runs[0].recipe.decoding
        self.limit = min(map(token_limit, runs))
        self._observe: Observe | None = None

    def observed(self, observe: Observe) -> Self:
        """The same translator, whose searches tell `observe` what they do.

        It knows the parts of lines by the numbers that `part_number` gives.
        """
        other = copy(self)
        other._observe = Audience(self._observe, observe) if self._observe else observe
        return other

    def __call__(
        self,
        text: str,
        *,
        beam: int | None = None,
        look: bool = False,
        settings: DecodingSettings | None = None,
        changes: Sequence[Wish] = (),
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
        changes: Sequence[Wish] = (),
        tree: bool = False,
        unknown: Mapping[str, str] | None = None,
    ) -> Answer:
        """The translation of one line with what was attended to.

        With `changes` it is what becomes of the translation when a head is silenced, a distribution
        flattened or a word forced to look elsewhere, and `before` holds the one without them. With
        `tree` all hypotheses of the search are kept; of a line in several parts, the first's.
        """
        if not changes:
            return self._look(text, settings, (), unknown, tree=tree)
        plain = self._look(text, settings, (), unknown)
        if plain.attention is None:
            raise SettingsError("the sentence is blank: there is no attention to change")
        cross = plain.attention.parts.get("cross")
        wishes = name_words(changes, cross)
        changed = self._look(text, settings, grant(wishes, cross), unknown, tree=tree)
        return replace(changed, changes=wishes, before=plain)

    def translate(
        self,
        texts: Sequence[str],
        settings: DecodingSettings | None = None,
        *,
        prefix: str = "",
        forbidden: Sequence[str] = (),
        look: bool = False,
        changes: Sequence[Change] = (),
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
        watch = chain(*changes) if changes else None
        settings = search_settings(settings or self.settings, unknown=unknown is not None)
        filler = None
        if unknown is not None:
            filler = make_filler(self.runs, unknown, prefix, forbidden, watch)
        texts = [mend(text) for text in texts]
        lines = read_together(texts, [run.tokenizers.source for run in self.runs], self.limit)
        check_changes(self.runs, changes, lines[0])
        hypotheses = self._search(lines, settings, prefix, forbidden, first, watch)
        if filler is None:
            said = [[[Said(one) for one in best] for best in parts] for parts in hypotheses]
        else:
            said = filler.fill_lines(lines[self.runs.index(filler.run)], hypotheses)
        answers = []
        for text, line, parts in zip(texts, lines[0], said, strict=True):
            attention = None
            if look and parts:
                attention = look_into(self.runs[0], line.parts[0], parts[0][0], watch)
            answers.append(write_answer(text, line, parts, self.target, attention))
        return answers

    def _look(
        self,
        text: str,
        settings: DecodingSettings | None,
        changes: Sequence[Change],
        unknown: Mapping[str, str] | None,
        *,
        tree: bool = False,
    ) -> Answer:
        """One answer with its attention, and with the search it came from where asked for."""
        growing = Growing()
        told = self.observed(growing) if tree else self
        [answer] = told.translate([text], settings, look=True, changes=changes, unknown=unknown)
        if not tree or answer.attention is None:
            return answer
        grown = growing.trees[part_number(0, 0)]
        return replace(answer, attention=with_tree(answer.attention, grown, self.target))

    def _search(
        self,
        lines: Sequence[Sequence[Line]],
        settings: DecodingSettings,
        prefix: str,
        forbidden: Sequence[str],
        first: int,
        watch: Watch | None,
    ) -> list[list[list[Hypothesis]]]:
        """The n best translations of each part of each line, whose lines each model has read."""
        places = [
            (number, part)
            for number, line in enumerate(lines[0], first)
            for part in range(len(line.parts))
        ]
        begun = self.target.encode([prefix])[0]
        found = search_many(
            self._members(lines),
            settings,
            budget=BUDGET,
            prefixes=[[] if part else begun for _, part in places],
            forbidden=self._phrases(forbidden),
            numbers=[part_number(*place) for place in places],
            watch=watch,
            observe=self._observe,
        )
        following = iter(found)
        return [[next(following) for _ in line.parts] for line in lines[0]]

    def _phrases(self, forbidden: Sequence[str]) -> list[list[int]]:
        """The ids of phrases; one that is unknown in part would forbid all that is unknown."""
        return [ids for ids in self.target.encode(list(forbidden)) if ids and UNK not in ids]

    def _members(self, lines: Sequence[Sequence[Line]]) -> list[Member]:
        """Each model with the parts of all lines in its own tokens."""
        return [
            Member(run.model, [part for line in own for part in line.parts])
            for run, own in zip(self.runs, lines, strict=True)
        ]


def load(
    path: str | Path, *others: str | Path, device: str = "auto", weights: str = "model"
) -> Translator:
    """The translator in a run's folder; with `others`, an ensemble."""
    where = pick_device(device)
    return Translator([load_run(one, device=where, weights=weights) for one in (path, *others)])
