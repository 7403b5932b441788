"""The engine for plain translations: an exported model in CTranslate2, without torch.

With the same settings it finds the same translations as the native engine, up to rounding;
docs/engines.md says how CTranslate2 interprets the settings.
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import ctranslate2

from regard.decoding.constraints.forbidden_phrases import forbidden_phrases
from regard.decoding.settings import (
    DecodingSettings,
    RuleSettings,
    native_only_reason,
    plan_batches,
)
from regard.engines.ctranslate2.export_artifact import ExportArtifact
from regard.engines.engine_tuning import CT2_BUDGET, EngineConfig, count_cores
from regard.engines.translation_request import EngineResult, TranslationRequest
from regard.errors import RegardError, RunError
from regard.json_files import load_json
from regard.manifest import check_folder
from regard.settings import abbreviate
from regard.text.build import load_tokenizers
from regard.text.preprocess import TokenizedLine
from regard.text.special_tokens import BOS, EOS, PAD, SPECIAL_PIECES, token_labels
from regard.types import Hypothesis

NO_PENALTY = 1e-9  # instead of 0, which changes CTranslate2's stopping rule; n ** 1e-9 rounds to 1
QUEUED_PER_WORKER = 2  # batches of each worker that run or wait: an interrupt waits for them too
MIN_HYPOTHESES = 32  # a smaller batch is slower per hypothesis; counted at its start
ANOTHER = "make the export again"
NEVER_GENERATED = [[SPECIAL_PIECES[PAD]], [SPECIAL_PIECES[BOS]]]


def open_ct2_engine(
    export: ExportArtifact, engine_config: EngineConfig | None = None
) -> "CTranslate2Engine | None":
    """The engine of an export; None if it was refused, is damaged or needs another CTranslate2."""
    if export.card.gate.refused is not None:
        return None
    try:
        return CTranslate2Engine(export, engine_config)
    except RegardError:
        return None


def open_translator(folder: Path, **options: Any) -> ctranslate2.Translator:
    """CTranslate2's translator of a folder, on the CPU; a `RunError` if it cannot be loaded.

    Making one sets OpenMP's number of threads for the calling thread, which torch would use too; so
    a separate thread makes it.
    """
    try:
        with ThreadPoolExecutor(1) as pool:
            made = pool.submit(ctranslate2.Translator, str(folder), device="cpu", **options)
            return made.result()
    except Exception as error:  # those of C++ have no common type
        raise RunError(
            f"{folder}: CTranslate2 {ctranslate2.__version__} cannot load it: "
            f"{abbreviate(str(error))}"
        ) from None


class _Batch(NamedTuple):
    """Sentences that are searched together."""

    sentences: list[int]
    limit: int  # the length limit of the longest
    at_limit: bool = False  # whether all have this limit and are known to reach it


class CTranslate2Engine:
    """An export, ready to translate on all cores."""

    def __init__(self, export: ExportArtifact, engine_config: EngineConfig | None = None) -> None:
        check_folder(export.folder)  # CTranslate2 does not
        self.card, self.folder = export.card, export.folder
        self.source, self.target = load_tokenizers(export.folder)
        self._names = token_labels(max(self.source.size, self.target.size))
        self._ids = {name: number for number, name in enumerate(self._names)}
        for side, tokenizer in (("source", self.source), ("target", self.target)):
            _check_labels(export.folder, side, self._names[: tokenizer.size])
        self._budget, self._workers = CT2_BUDGET, count_cores()
        if engine_config is not None and engine_config.engine == "ctranslate2":
            self._budget, self._workers = engine_config.budget, engine_config.workers
        self._engine = open_translator(
            export.folder,
            compute_type="default",  # as it was written
            inter_threads=self._workers,
            intra_threads=1,
            max_queued_batches=-1,
        )

    def unsupported_reason(self, request: TranslationRequest) -> str | None:
        """Why the engine does not support a request; None: it does."""
        settings, positions = request.settings, self.card.positions
        longest = self._within_positions(settings.rules).limit(self.card.longest + 1)
        reasons = {
            "attention is to be recorded": request.look,
            "attention is to be changed": request.changes,
            "the search is to be observed": request.observers,
            "unknown words are to be replaced by attention": request.unknown is not None,
            "a beam's answers are to begin with a prefix": (request.prefix or self.target.opening)
            and settings.beam.size > 1,
            "answers may be longer than there are positions": longest > (positions or longest),
        }
        reason = next((reason for reason, holds in reasons.items() if holds), None)
        return reason or native_only_reason(settings)

    def translate_lines(
        self, lines: Sequence[Sequence[TokenizedLine]], request: TranslationRequest
    ) -> list[EngineResult]:
        [tokenized] = lines
        prefix, opening = self.target.encode([request.prefix])[0], self.target.opening
        found = self.search(
            [part for line in tokenized for part in line.parts],
            request.settings,
            prefixes=[
                opening if i else prefix for line in tokenized for i in range(len(line.parts))
            ],
            forbidden=forbidden_phrases(request.forbidden, self.target),
        )
        rest = iter(found)
        return [EngineResult(list(islice(rest, len(line.parts)))) for line in tokenized]

    def search(
        self,
        sources: Sequence[Sequence[int]],
        settings: DecodingSettings,
        *,
        prefixes: Sequence[Sequence[int]] | None = None,
        forbidden: Sequence[Sequence[int]] = (),
    ) -> list[list[Hypothesis]]:
        """The n best hypotheses of each source, in order; prefixes need greedy search.

        A batch has one length limit, the largest of its sentences. Hypotheses longer than their own
        sentence's limit are dropped; sentences with too few left are searched again, in batches of
        that limit.
        """
        rules = self._within_positions(settings.rules)
        lengths = [len(ids) + 1 for ids in sources]  # with EOS
        limits = [rules.limit(length) for length in lengths]
        prefixes = prefixes or [()] * len(sources)
        suppressed = [*NEVER_GENERATED, *map(self._labels_of, forbidden)]
        plan = batch_by_limit(lengths, limits, self._budget, settings.beam.size)
        batches = deque(_Batch(batch, max(limits[i] for i in batch)) for batch in plan)
        waiting: deque[tuple[_Batch, list[Any]]] = deque()
        found: dict[int, list[Hypothesis]] = {}
        while batches or waiting:
            if batches and len(waiting) < QUEUED_PER_WORKER * self._workers:
                batch = batches.popleft()
                pairs = [(sources[i], prefixes[i]) for i in batch.sentences]
                waiting.append((batch, self._submit(pairs, batch, settings, suppressed)))
                continue
            batch, answers = waiting.popleft()
            to_retry = defaultdict(list)
            for i, answer in zip(batch.sentences, answers, strict=True):
                best = found[i] = self._select_n_best(answer.result(), limits[i], settings)
                complete = len(best) == settings.n_best and best[-1].finished
                complete |= settings.beam.size == 1 and limits[i] == batch.limit
                if not batch.at_limit and not complete:
                    to_retry[limits[i]].append(i)
            batches.extend(_Batch(group, limit, at_limit=True) for limit, group in to_retry.items())
        return [found[i] for i in range(len(sources))]

    def log_probabilities(
        self, pairs: Iterable[tuple[Sequence[int], Sequence[int]]]
    ) -> list[list[float]]:
        """Natural logarithms of the probabilities of each target's tokens, and of its EOS."""
        sources, targets = (
            [self._labels_of(ids) for ids in side] for side in zip(*pairs, strict=True)
        )
        scored = self._engine.score_batch(sources, targets, max_batch_size=32, max_input_length=0)
        return [list(each.log_probs) for each in scored]

    def _submit(
        self,
        pairs: Sequence[tuple[Sequence[int], Sequence[int]]],
        batch: _Batch,
        settings: DecodingSettings,
        suppressed: list[list[str]],
    ) -> list[Any]:
        """Futures of the results of a batch of sources and prefixes.

        `suppressed` phrases may occur in prefixes, whose tokens do not count in the score.
        CTranslate2 ranks truncated hypotheses among those that ended; with room for `size` more it
        keeps all of both.
        """
        size, kept = settings.beam.size, settings.beam.num_finished
        if batch.at_limit and size > 1:
            kept += size
        source_labels, prefix_labels = (
            [self._labels_of(ids) for ids in side] for side in zip(*pairs, strict=True)
        )
        answers: list[Any] = self._engine.translate_batch(
            source_labels,
            prefix_labels if any(prefix_labels) else None,
            asynchronous=True,
            beam_size=size,
            patience=kept / size,
            num_hypotheses=kept,
            length_penalty=settings.beam.length_penalty or NO_PENALTY,
            max_decoding_length=batch.limit,
            min_decoding_length=min(settings.rules.min_length, batch.limit),
            disable_unk=not settings.rules.allow_unknown,
            suppress_sequences=suppressed,
            no_repeat_ngram_size=settings.rules.no_repeat_ngram,
            return_end_token=True,  # it then counts in the length
            return_scores=True,
            max_input_length=0,  # no limit: lines were already split
        )
        return answers

    def _select_n_best(
        self, found: Any, limit: int, settings: DecodingSettings
    ) -> list[Hypothesis]:
        """The n best of CTranslate2's hypotheses within a limit, those that ended first."""
        both, eos = zip(found.hypotheses, found.scores, strict=True), [SPECIAL_PIECES[EOS]]
        within = [(names, score) for names, score in both if len(names) <= limit]
        within.sort(key=lambda pair: pair[0][-1:] != eos)  # stable: the best of each kind first
        hypotheses = []
        for names, score in within[: settings.n_best]:
            ended = names[-1:] == eos  # not truncated at the limit
            tokens = tuple(self._ids[name] for name in (names[:-1] if ended else names))
            log_probability = score * len(names) ** settings.beam.length_penalty
            hypotheses.append(Hypothesis(tokens, score, log_probability, ended))
        return hypotheses

    def _labels_of(self, ids: Sequence[int]) -> list[str]:
        return [self._names[id_] for id_ in ids]

    def _within_positions(self, rules: RuleSettings) -> RuleSettings:
        """The rules with the model's length limit, as in the native search."""
        if self.card.limit is None:
            return rules
        longest = min(rules.max_length, self.card.limit - 1)  # BOS comes before
        return rules.model_copy(update={"max_length": longest})


def _check_labels(folder: Path, side: str, names: list[str]) -> None:
    """Raise a `RunError` unless the tokens of a side's vocabulary have these names."""
    shared = folder / "shared_vocabulary.json"
    file = shared if shared.exists() else folder / f"{side}_vocabulary.json"
    if load_json(file, list[str], advice=ANOTHER) != names:
        raise RunError(f"{file}: not the vocabulary of its tokenizer; {ANOTHER}")


def batch_by_limit(
    lengths: Sequence[int], limits: Sequence[int], budget: int, width: int
) -> list[list[int]]:
    """Indices of the sentences of each batch, the longest first.

    Sentences of one limit get their own batches if there are enough of them, so that few are
    searched again; the others are batched by length. `budget` and `width`: see `plan_batches`.
    """
    by_limit: dict[int, list[int]] = defaultdict(list)
    for i, limit in enumerate(limits):
        by_limit[limit].append(i)
    full = [group for group in by_limit.values() if len(group) * width >= MIN_HYPOTHESES]
    small = [group for group in by_limit.values() if len(group) * width < MIN_HYPOTHESES]
    batches = []
    for group in (*full, list(chain(*small))):
        group_lengths = [lengths[i] for i in group]
        plan = plan_batches(group_lengths, budget, width)
        if len(set(group_lengths)) == 1:  # as many batches, of equal size
            bounds = [number * len(group) // len(plan) for number in range(len(plan) + 1)]
            plan = [list(range(*pair)) for pair in pairwise(bounds)]
        batches += [[group[i] for i in batch] for batch in plan]
    return sorted(batches, key=lambda batch: -lengths[batch[0]])
