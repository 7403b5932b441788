"""The engine for plain translations: an exported model in CTranslate2, without torch.

It is given the same settings as the native engine and finds the same translations, to rounding. How
CTranslate2 understands its options is written beside each of them; docs/engines.md has the whole.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from typing import Any, NamedTuple

import ctranslate2

from regard.decoding.batches import plan_batches
from regard.decoding.settings import DecodingSettings, RuleSettings
from regard.errors import RegardError
from regard.exchange.token_names import token_names
from regard.nouns import Hypothesis
from regard.serving.answer import Said
from regard.serving.engine import Spoken, Wanted
from regard.serving.exported import Exported
from regard.serving.lines import Line
from regard.serving.measured import Choice, count_cores
from regard.serving.searching import native_only
from regard.text.build import load_tokenizers
from regard.text.special import BOS, EOS, PAD, SPECIAL_PIECES

BUDGET = 1024
"""Positions that a worker searches at a time, counted once for each hypothesis; where nothing was
measured."""
NO_PENALTY = 1e-9
"""In place of a length penalty of 0, with which CTranslate2 would stop by another rule. In float32
any length to this power is 1."""
AHEAD = 2
"""Batches for each worker that are begun or wait: a person who interrupts waits for them too."""
SILENT = [[SPECIAL_PIECES[PAD]], [SPECIAL_PIECES[BOS]]]
"""What is never said."""


def has_gpu() -> bool:
    """Whether CTranslate2 sees a GPU."""
    return bool(ctranslate2.get_cuda_device_count())


def open_fast(export: Exported, choice: Choice | None = None) -> "Fast | None":
    """The engine of an export; None where it was refused, is damaged, or of another CTranslate2.

    With a `choice` it is run as that says, rather than as is fastest on most machines.
    """
    if export.card.gate.refused is not None:
        return None
    try:
        return Fast(export, choice)
    except (RegardError, RuntimeError, ValueError):  # of its tokenizers, or CTranslate2's
        return None


class _Found(NamedTuple):
    """What CTranslate2 says to a sentence."""

    names: Sequence[Sequence[str]]
    """Tokens of each answer, EOS among them where it ended."""
    scores: Sequence[float]

    @property
    def longest(self) -> int:
        return max(map(len, self.names))

    @property
    def finished(self) -> bool:
        return all(names and names[-1] == SPECIAL_PIECES[EOS] for names in self.names)


class Fast:
    """An export, ready to translate on all cores."""

    def __init__(
        self, export: Exported, choice: Choice | None = None, *, workers: int | None = None
    ) -> None:
        self.card, self.folder = export.card, export.folder
        self.source, self.target = load_tokenizers(export.folder)
        self._names = token_names(max(self.source.size, self.target.size))
        self._ids = {name: number for number, name in enumerate(self._names)}
        if choice is not None and choice.engine != "ctranslate2":
            choice = None  # what was measured of another engine says nothing of this one
        self._budget = choice.budget if choice else BUDGET
        self._workers = workers or (choice.workers if choice else count_cores())
        # CTranslate2 sets OpenMP's number of threads for whoever makes a translator, and torch has
        # it from there: a thread that ends takes that with it.
        with ThreadPoolExecutor(1) as aside:
            self._engine = aside.submit(
                ctranslate2.Translator,
                str(export.folder),
                device="cpu",
                compute_type="default",  # as it was written
                inter_threads=self._workers,
                intra_threads=1,
                max_queued_batches=-1,
            ).result()

    def refuses(self, wanted: Wanted) -> str | None:
        needs = {
            "attention is to be seen": wanted.look,
            "attention is to be changed": wanted.changes,
            "the search is to be watched": wanted.observers,
            "unknown words are to be replaced by attention": wanted.unknown is not None,
            "answers are to begin with a prefix": wanted.prefix,
            "words are forbidden": wanted.forbidden,
            "answers may be longer than there are positions": self._too_long(wanted.settings.rules),
        }
        here = next((need for need, is_so in needs.items() if is_so), None)
        return here or native_only(wanted.settings)

    def speak(self, lines: Sequence[Sequence[Line]], wanted: Wanted) -> list[Spoken]:
        [own] = lines
        found = iter(self.search([part for line in own for part in line.parts], wanted.settings))
        return [Spoken([[Said(one) for one in next(found)] for _ in line.parts]) for line in own]

    def search(
        self, sources: Sequence[Sequence[int]], settings: DecodingSettings
    ) -> list[list[Hypothesis]]:
        """The n best answers to each source, in order; all cores search, each some sentences."""
        rules = self._within_positions(settings.rules)
        lengths = [len(ids) + 1 for ids in sources]  # with EOS
        limits = [rules.limit(length) for length in lengths]
        size = settings.beam.size
        found = self._submit(plan_batches(lengths, self._budget, size), sources, limits, settings)
        over = [
            place
            for place, one in sorted(found.items(), key=lambda item: limits[item[0]])
            if one.longest > limits[place] or not one.finished
        ]
        exact = []
        for _, group in groupby(over, key=limits.__getitem__):
            same = list(group)
            plan = plan_batches([lengths[place] for place in same], self._budget, size)
            exact += [[same[number] for number in batch] for batch in plan]
        found.update(self._submit(exact, sources, limits, settings, cut=True))
        return [self._hypotheses(found[place], settings) for place in range(len(sources))]

    def log_probabilities(
        self, pairs: Iterable[tuple[Sequence[int], Sequence[int]]]
    ) -> list[list[float]]:
        """Natural logarithms of the probabilities of each target's tokens, and of its EOS."""
        sources, targets = ([self._said(ids) for ids in side] for side in zip(*pairs, strict=True))
        scored = self._engine.score_batch(sources, targets, max_batch_size=32, max_input_length=0)
        return [list(one.log_probs) for one in scored]

    def _submit(
        self,
        batches: Sequence[Sequence[int]],
        sources: Sequence[Sequence[int]],
        limits: Sequence[int],
        settings: DecodingSettings,
        *,
        cut: bool = False,
    ) -> dict[int, _Found]:
        """What is found for the sources at the places of each batch.

        A batch has one length limit: that of its longest sentence, which the others outgrow
        unhindered. Whatever reached its own is searched once more, `cut` at it, in batches of one
        limit. There CTranslate2 would rank what was cut among what ended, and keep the best of
        both; with twice the patience it keeps all, and what ended can be put first.
        """
        found: dict[int, _Found] = {}
        waiting: deque[tuple[Sequence[int], list[Any]]] = deque()
        for places in batches:
            if len(waiting) == AHEAD * self._workers:
                found.update(_collect(*waiting.popleft()))
            said = [self._said(sources[place]) for place in places]
            limit = max(limits[place] for place in places)
            waiting.append((places, self._begin(said, limit, settings, cut=cut)))
        for places, answers in waiting:
            found.update(_collect(places, answers))
        return found

    def _begin(
        self, said: list[list[str]], limit: int, settings: DecodingSettings, *, cut: bool
    ) -> list[Any]:
        """What will be found for a batch: it is searched when a worker is free."""
        size = settings.beam.size
        patience = 2 if cut and size > 1 else 1
        answers: list[Any] = self._engine.translate_batch(
            said,
            asynchronous=True,
            beam_size=size,
            patience=patience,
            num_hypotheses=size * patience,  # all: the longest tells when the search was over
            length_penalty=settings.beam.length_penalty or NO_PENALTY,
            max_decoding_length=limit,
            min_decoding_length=settings.rules.min_length,
            disable_unk=not settings.rules.allow_unknown,
            suppress_sequences=SILENT,
            return_end_token=True,  # which then counts in the length
            return_scores=True,
            max_input_length=0,  # no limit: lines were cut before
        )
        return answers

    def _hypotheses(self, found: _Found, settings: DecodingSettings) -> list[Hypothesis]:
        """The n best, those that ended first."""
        alpha, best = settings.beam.length_penalty, []
        for names, score in zip(found.names, found.scores, strict=True):
            ended = bool(names) and names[-1] == SPECIAL_PIECES[EOS]
            said = names[:-1] if ended else names
            tokens = tuple(self._ids[name] for name in said)
            best.append(Hypothesis(tokens, score, score * len(names) ** alpha, ended))
        best.sort(key=lambda one: (not one.finished, -one.score))
        return best[: settings.n_best]

    def _said(self, ids: Sequence[int]) -> list[str]:
        return [self._names[id_] for id_ in ids]

    def _within_positions(self, rules: RuleSettings) -> RuleSettings:
        """No longer than the model can write, as in the native search."""
        if self.card.limit is None:
            return rules
        longest = min(rules.max_length, self.card.limit)
        return rules.model_copy(update={"max_length": longest})

    def _too_long(self, rules: RuleSettings) -> bool:
        positions = self.card.positions
        longest = self._within_positions(rules).limit(self.card.longest + 1)
        return positions is not None and longest > positions


def _collect(places: Sequence[int], answers: Sequence[Any]) -> Iterator[tuple[int, _Found]]:
    """What was found for the sources at `places`, once it is there."""
    for place, answer in zip(places, answers, strict=True):
        found = answer.result()
        yield place, _Found(found.hypotheses, found.scores)
