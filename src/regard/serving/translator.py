"""A saved model as a function of text."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from regard.batching.collate import pad, pad_source
from regard.decoding.many import Member, search_many
from regard.decoding.search import DecodingSettings
from regard.errors import SearchError, SettingsError
from regard.inspection.lexical import cut_text
from regard.inspection.look import Look
from regard.inspection.record import PARTS, Silenced, chain, record
from regard.recipes.run_folder import Run, load_run, pick_device
from regard.serving.aligning import attends
from regard.serving.lines import Line, mend, read_line, token_limit
from regard.serving.searching import search_settings
from regard.serving.unknown_words import Filler, Said
from regard.text.special import BOS, UNK
from regard.types import Watch

PARTS_AT_MOST = 1 << 20
"""Of one line: what tells the parts of one line from those of the next."""
BUDGET = 16_384
"""Positions searched at a time, counted once for each hypothesis."""


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

    def __call__(
        self,
        text: str,
        *,
        beam: int | None = None,
        look: bool = False,
        settings: DecodingSettings | None = None,
        unknown: Mapping[str, str] | None = None,
    ) -> Answer:
        """The translation of one line; `look` keeps what was attended to."""
        wanted = search_settings(settings or self.settings, beam=beam)
        return self.translate([text], wanted, look=look, unknown=unknown)[0]

    def translate(
        self,
        texts: Sequence[str],
        settings: DecodingSettings | None = None,
        *,
        prefix: str = "",
        forbidden: Sequence[str] = (),
        look: bool = False,
        without: Sequence[Silenced] = (),
        first: int = 0,
        unknown: Mapping[str, str] | None = None,
    ) -> list[Answer]:
        """The translation of each text, in order: N in, N out.

        Line breaks and tabs, in a text or in what a model makes of it, become spaces. Answers begin
        with `prefix` and hold none of the `forbidden` words. The heads of `without` are silenced.
        `first` is the number of the first text, by which samples are drawn: texts that are given
        in several calls are then sampled as in one.

        With `unknown`, a dictionary, a model may say that a word is unknown to it. In its place
        stands the entry of the source word that it attends to, or where there is none a copy of
        that word: an empty dictionary copies all. `⁇` shows where unknown words are allowed by the
        settings alone.
        """
        self._check_silenced(without)
        watch: Watch | None = chain(*without) if without else None
        settings = search_settings(settings or self.settings, unknown=unknown is not None)
        filler = None if unknown is None else self._filler(unknown, prefix, forbidden, watch)
        texts = [mend(text) for text in texts]
        lines = self._read(texts)
        places = [
            (number, part)
            for number, line in enumerate(lines[0], first)
            for part in range(len(line.parts))
        ]
        begun = self.target.encode([prefix])[0]
        found = iter(
            search_many(
                self._members(lines),
                settings,
                budget=BUDGET,
                prefixes=[[] if part else begun for _, part in places],
                forbidden=self._phrases(forbidden),
                numbers=[number * PARTS_AT_MOST + part for number, part in places],
                watch=watch,
            )
        )
        hypotheses = [[next(found) for _ in line.parts] for line in lines[0]]
        if filler is None:
            said = [[[Said(one) for one in best] for best in parts] for parts in hypotheses]
        else:
            said = filler.fill_lines(lines[self.runs.index(filler.run)], hypotheses)
        answers = []
        for text, line, parts in zip(texts, lines[0], said, strict=True):
            attention = self._look(line, parts[0][0], watch) if look and parts else None
            answers.append(self._answer(text, line, parts, attention))
        return answers

    def _filler(
        self,
        dictionary: Mapping[str, str],
        prefix: str,
        forbidden: Sequence[str],
        watch: Watch | None,
    ) -> Filler:
        """What puts words in the place of unknown ones, by the first model that attends."""
        run = next(filter(attends, self.runs), None)
        if run is None:
            named = ", ".join(f"{run.folder.path} ({run.recipe.model.family})" for run in self.runs)
            raise SettingsError(
                f"unknown: {named}: without attention to the source there is nothing to tell which "
                "word an unknown one stands for; use a model with attention, or keep unknown words"
            )
        given = [word for i, word in zip(*cut_text(prefix, self.target), strict=True) if i == UNK]
        return Filler(run, dictionary, given, forbidden, watch)

    def _phrases(self, forbidden: Sequence[str]) -> list[list[int]]:
        """The ids of phrases; one that is unknown in part would forbid all that is unknown."""
        return [ids for ids in self.target.encode(list(forbidden)) if ids and UNK not in ids]

    def _members(self, lines: Sequence[Sequence[Line]]) -> list[Member]:
        """Each model with the parts of all lines in its own tokens."""
        return [
            Member(run.model, [part for line in own for part in line.parts])
            for run, own in zip(self.runs, lines, strict=True)
        ]

    def _check_silenced(self, without: Sequence[Silenced]) -> None:
        """An error if a model has no such layer: silencing it would do nothing."""
        for run in self.runs if without else ():
            there = record(run.model, pad_source([[]]), pad([[]], first=BOS)).weights
            for one in without:
                if (one.part, one.layer) not in there:
                    count = sum(part == one.part for part, _ in there)
                    raise SettingsError(
                        f"layer: {one.part} attention of {run.folder.path} has {count}, counted "
                        f"from 0; cannot silence {one.layer}"
                    )

    def _read(self, texts: Sequence[str]) -> list[list[Line]]:
        """The lines of each model; an error if it cuts an over-long one where others do not.

        Models that cut a line in unlike places cannot vote on its parts.
        """
        lines = [
            [read_line(text, run.tokenizers.source, self.limit) for text in texts]
            for run in self.runs
        ]
        for same in zip(*lines, strict=True):
            if len({len(line.parts) for line in same}) > 1:
                raise SearchError(
                    "a line is too long for models with unlike source vocabularies to translate "
                    f"together: more than {self.limit} tokens; shorten it, or use one model"
                )
        return lines

    def _answer(
        self, text: str, line: Line, parts: Sequence[Sequence[Said]], look: Look | None
    ) -> Answer:
        """The n-th best of a line in parts is made of the n-th best of each."""
        if not parts:
            return Answer(text, (Candidate("", 0.0, 0.0),), tuple(line.notes))
        notes = list(line.notes)
        if not all(best[0].hypothesis.finished for best in parts):
            notes.append("its translation reached the length limit and may be cut short")
        candidates = []
        for rank in range(min(map(len, parts))):
            chosen, unknown = zip(*(best[rank] for best in parts), strict=True)
            written = " ".join(
                self.target.decode(one.tokens, words)
                for one, words in zip(chosen, unknown, strict=True)
            )
            candidates.append(
                Candidate(
                    " ".join(written.replace("\t", " ").splitlines()),
                    sum(one.score for one in chosen),
                    sum(one.log_probability for one in chosen),
                )
            )
        return Answer(text, tuple(candidates), tuple(notes), look)

    def _look(self, line: Line, said: Said, watch: Watch | None) -> Look:
        """What the first model attended to in the first part: told its answer, it does the same."""
        run = self.runs[0]
        recording = record(
            run.model,
            pad_source(line.parts[:1]),
            pad([said.hypothesis.tokens], first=BOS),
            change=watch,
        )
        recorded = [part for part in PARTS if any(part == there for there, _ in recording.weights)]
        source, target = run.tokenizers
        named = {
            part: recording.attention(0, source, target, part, unknown=said.unknown)
            for part in recorded
        }
        return Look(named)


def load(
    path: str | Path, *others: str | Path, device: str = "auto", weights: str = "model"
) -> Translator:
    """The translator in a run's folder; with `others`, an ensemble."""
    where = pick_device(device)
    return Translator([load_run(one, device=where, weights=weights) for one in (path, *others)])
