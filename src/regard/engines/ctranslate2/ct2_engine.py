"""The engine for plain translations: an exported model in CTranslate2, without torch.

It is given the same settings as the native engine and finds the same translations, to rounding. How
CTranslate2 understands its options is written beside each of them; docs/engines.md has the whole.
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import ctranslate2

from regard.decoding.constraints.forbidden_phrases import forbidden_phrases
from regard.decoding.settings import DecodingSettings, RuleSettings, native_only_reason
from regard.engines.ctranslate2.ct2_batching import batch_by_limit
from regard.engines.ctranslate2.export_artifact import ExportArtifact, check_export
from regard.engines.engine import EngineResult, FilledHypothesis, TranslationRequest
from regard.engines.tuned_engine import CT2_BUDGET, EngineConfig, count_cores
from regard.errors import RegardError
from regard.exchange.token_names import token_labels
from regard.text.build import load_tokenizers
from regard.text.preprocess import TokenizedLine
from regard.text.special_tokens import BOS, EOS, PAD, SPECIAL_PIECES
from regard.types import Hypothesis

NO_PENALTY = 1e-9
"""In place of a length penalty of 0, with which CTranslate2 would stop by another rule. In float32
any length to this power is 1."""
QUEUED_PER_WORKER = 2
"""Batches for each worker that are begun or wait: a person who interrupts waits for them too."""
NEVER_GENERATED = [[SPECIAL_PIECES[PAD]], [SPECIAL_PIECES[BOS]]]
"""What is never said."""


def open_ct2_engine(
    export: ExportArtifact, choice: EngineConfig | None = None
) -> "CTranslate2Engine | None":
    """The engine of an export; None where it was refused, is damaged, or of another CTranslate2.

    With a `choice` it is run as that says, rather than as is fastest on most machines.
    """
    if export.card.gate.refused is not None:
        return None
    try:
        return CTranslate2Engine(export, choice)
    except (RegardError, RuntimeError, ValueError):  # of its tokenizers, or CTranslate2's
        return None


class _Batch(NamedTuple):
    """Places of sentences that are searched together."""

    places: list[int]
    limit: int
    """The length limit of the longest."""
    at_limit: bool = False
    """Whether all have this limit and are known to reach it."""


class CTranslate2Engine:
    """An export, ready to translate on all cores."""

    def __init__(
        self,
        export: ExportArtifact,
        choice: EngineConfig | None = None,
        *,
        workers: int | None = None,
    ) -> None:
        check_export(export.folder)  # CTranslate2 would read anything
        self.card, self.folder = export.card, export.folder
        self.source, self.target = load_tokenizers(export.folder)
        self._names = token_labels(max(self.source.size, self.target.size))
        self._ids = {name: number for number, name in enumerate(self._names)}
        if choice is not None and choice.engine != "ctranslate2":
            choice = None  # what was measured of another engine says nothing of this one
        self._budget = choice.budget if choice else CT2_BUDGET
        self._workers = workers or (choice.workers if choice else count_cores())
        # CTranslate2 sets OpenMP's number of threads for whoever makes a translator, and torch has
        # it from there: a thread that ends takes that with it.
        with ThreadPoolExecutor(1) as pool:
            self._engine = pool.submit(
                ctranslate2.Translator,
                str(export.folder),
                device="cpu",
                compute_type="default",  # as it was written
                inter_threads=self._workers,
                intra_threads=1,
                max_queued_batches=-1,
            ).result()

    def unsupported_reason(self, request: TranslationRequest) -> str | None:
        needs = {
            "attention is to be seen": request.look,
            "attention is to be changed": request.changes,
            "the search is to be watched": request.observers,
            "unknown words are to be replaced by attention": request.unknown is not None,
            "a beam's answers are to begin with a prefix": (
                request.prefix and request.settings.beam.size > 1
            ),
            "answers may be longer than there are positions": self._exceeds_positions(
                request.settings.rules
            ),
        }
        own_reason = next((need for need, is_so in needs.items() if is_so), None)
        return own_reason or native_only_reason(request.settings)

    def translate_lines(
        self, lines: Sequence[Sequence[TokenizedLine]], request: TranslationRequest
    ) -> list[EngineResult]:
        [own] = lines
        prefix_labels = self.target.encode([request.prefix])[0]
        found = iter(
            self.search(
                [part for line in own for part in line.parts],
                request.settings,
                prefixes=[
                    [] if part else prefix_labels for line in own for part in range(len(line.parts))
                ],
                forbidden=forbidden_phrases(request.forbidden, self.target),
            )
        )
        return [
            EngineResult([[FilledHypothesis(one) for one in next(found)] for _ in line.parts])
            for line in own
        ]

    def search(
        self,
        sources: Sequence[Sequence[int]],
        settings: DecodingSettings,
        *,
        prefixes: Sequence[Sequence[int]] | None = None,
        forbidden: Sequence[Sequence[int]] = (),
    ) -> list[list[Hypothesis]]:
        """The n best answers to each source, in order; all cores search, each some sentences.

        Each begins with its sentence's prefix, which only greedy search may have, and holds none of
        the forbidden phrases.

        A batch has one length limit: that of its longest sentence. What the others say within their
        own is theirs, unless that is too little: then they are searched once more, `cut` at their
        limit, behind those that wait.
        """
        rules = self._within_positions(settings.rules)
        lengths = [len(ids) + 1 for ids in sources]  # with EOS
        limits = [rules.limit(length) for length in lengths]
        prefixes = prefixes or [()] * len(sources)
        suppressed = [*NEVER_GENERATED, *map(self._labels_of, forbidden)]
        plan = batch_by_limit(lengths, limits, self._budget, settings.beam.size)
        batches = deque(_Batch(places, max(limits[place] for place in places)) for places in plan)
        waiting: deque[tuple[_Batch, list[Any]]] = deque()
        found: dict[int, list[Hypothesis]] = {}
        while batches or waiting:
            if batches and len(waiting) < QUEUED_PER_WORKER * self._workers:
                batch = batches.popleft()
                pairs = [(sources[place], prefixes[place]) for place in batch.places]
                waiting.append((batch, self._submit(pairs, batch, settings, suppressed)))
                continue
            batch, answers = waiting.popleft()
            to_retry = defaultdict(list)
            for place, answer in zip(batch.places, answers, strict=True):
                limit = limits[place]
                found[place] = self._select_n_best(answer.result(), limit, settings)
                if not (
                    batch.at_limit
                    or _is_complete(found[place], settings, exact=limit == batch.limit)
                ):
                    to_retry[limit].append(place)
            batches.extend(
                _Batch(places, limit, at_limit=True) for limit, places in to_retry.items()
            )
        return [found[place] for place in range(len(sources))]

    def log_probabilities(
        self, pairs: Iterable[tuple[Sequence[int], Sequence[int]]]
    ) -> list[list[float]]:
        """Natural logarithms of the probabilities of each target's tokens, and of its EOS."""
        sources, targets = (
            [self._labels_of(ids) for ids in side] for side in zip(*pairs, strict=True)
        )
        scored = self._engine.score_batch(sources, targets, max_batch_size=32, max_input_length=0)
        return [list(one.log_probs) for one in scored]

    def _submit(
        self,
        pairs: Sequence[tuple[Sequence[int], Sequence[int]]],
        batch: _Batch,
        settings: DecodingSettings,
        suppressed: list[list[str]],
    ) -> list[Any]:
        """What will be found for a batch of sources and prefixes, when a worker is free.

        Nothing `silent` is said, but in a prefix. Its tokens cost nothing, in either engine: there
        was no choice.

        A beam that is cut at its limit has unfinished answers, which CTranslate2 would rank among
        those that ended, to keep the best of both; with twice the patience it keeps all.
        """
        size = settings.beam.size
        patience = 2 if batch.at_limit and size > 1 else 1
        source_labels, prefix_labels = (
            [self._labels_of(ids) for ids in side] for side in zip(*pairs, strict=True)
        )
        answers: list[Any] = self._engine.translate_batch(
            source_labels,
            prefix_labels if any(prefix_labels) else None,
            asynchronous=True,
            beam_size=size,
            patience=patience,
            num_hypotheses=size * patience,
            length_penalty=settings.beam.length_penalty or NO_PENALTY,
            max_decoding_length=batch.limit,
            min_decoding_length=min(settings.rules.min_length, batch.limit),
            disable_unk=not settings.rules.allow_unknown,
            suppress_sequences=suppressed,
            no_repeat_ngram_size=settings.rules.no_repeat_ngram,
            return_end_token=True,  # which then counts in the length
            return_scores=True,
            max_input_length=0,  # no limit: lines were cut before
        )
        return answers

    def _select_n_best(
        self, found: Any, limit: int, settings: DecodingSettings
    ) -> list[Hypothesis]:
        """The n best of what CTranslate2 found within a limit, those that ended first."""
        both = zip(found.hypotheses, found.scores, strict=True)
        within = [(names, score) for names, score in both if len(names) <= limit]
        within.sort(key=lambda pair: not _ends_in_eos(pair[0]))  # of each kind the best is first
        return [self._hypothesis(*pair, settings) for pair in within[: settings.n_best]]

    def _hypothesis(
        self, names: Sequence[str], score: float, settings: DecodingSettings
    ) -> Hypothesis:
        ended = _ends_in_eos(names)
        tokens = tuple(map(self._ids.__getitem__, names[:-1] if ended else names))
        return Hypothesis(tokens, score, score * len(names) ** settings.beam.length_penalty, ended)

    def _labels_of(self, ids: Sequence[int]) -> list[str]:
        return [self._names[id_] for id_ in ids]

    def _within_positions(self, rules: RuleSettings) -> RuleSettings:
        """No longer than the model can write, as in the native search."""
        if self.card.limit is None:
            return rules
        longest = min(rules.max_length, self.card.limit)
        return rules.model_copy(update={"max_length": longest})

    def _exceeds_positions(self, rules: RuleSettings) -> bool:
        positions = self.card.positions
        longest = self._within_positions(rules).limit(self.card.longest + 1)
        return positions is not None and longest > positions


def _ends_in_eos(names: Sequence[str]) -> bool:
    """Whether an answer ended, rather than being cut at its limit."""
    return names[-1:] == [SPECIAL_PIECES[EOS]]


def _is_complete(best: Sequence[Hypothesis], settings: DecodingSettings, *, exact: bool) -> bool:
    """Whether these are the n best within a limit, whatever else the search has met there.

    An answer that ended is better than any that did not: if n ended, there are no better ones.
    Greedy search meets but one, which it gives if it was stopped at `exact` that limit.
    """
    if settings.beam.size == 1 and exact:
        return True
    return len(best) == settings.n_best and best[-1].finished
