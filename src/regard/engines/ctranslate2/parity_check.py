"""The check, before an export is used, that it translates like its model."""

import math
from collections.abc import Sequence
from random import Random
from typing import NamedTuple

from regard.corpora.corpus import Pair
from regard.decoding.batch_search import SearchMember, one_thread, search_many
from regard.decoding.constraints.rules import Constraints
from regard.decoding.settings import portable_settings
from regard.engines.ctranslate2.ct2_engine import CTranslate2Engine
from regard.engines.ctranslate2.export_artifact import ParityReport, TranslationDifference
from regard.errors import RegardError
from regard.iterate import reservoir_sample
from regard.recipes.open_run import Run
from regard.recipes.run_folder import load_data
from regard.text.preprocess import TokenizedLine, tokenize_lines
from regard.text.segmentation import Segments
from regard.text.special_tokens import SPECIAL_PIECES
from regard.types import Hypothesis

SAMPLE_SIZE = 64  # sentences in the sample
MAX_SAMPLE_TOKENS = 60  # tokens of its sentences: the native engine must translate them too
SAMPLE_BUDGET = 2048  # positions that the native engine searches at a time
SCORE_TOLERANCE = 1e-3  # closer scores count as equal; float32 differs in the sixth digit
MAX_LOSS = 0.02  # the most a lower precision may cost, in nats a token: 2% of its probability
MAX_SHOWN = 5  # differences that are reported


class ParitySample(NamedTuple):
    """Lines to translate, and where they come from."""

    lines: list[TokenizedLine]
    origin: str


def draw_sample(run: Run) -> ParitySample:
    """Held-out sources of the run, or random tokens if its data are gone."""
    tokenizer, longest = run.tokenizers.source, min(MAX_SAMPLE_TOKENS, run.longest)
    try:
        data = load_data(run.folder)
        split = data.held_out()
        pairs: list[Pair] = reservoir_sample(data.read(split), SAMPLE_SIZE)
        lines = tokenize_lines([pair.source for pair in pairs], tokenizer, run.longest)
        lines = [line for line in lines if len(line.parts) == 1 and len(line.parts[0]) <= longest]
    except (RegardError, OSError):
        lines, split = [], "test"
    if lines:
        return ParitySample(lines, f"{len(lines)} sentences of the run's {split} split")
    rng, first = Random(0), len(SPECIAL_PIECES)
    for _ in range(SAMPLE_SIZE):
        length = rng.randint(1, min(20, longest))
        ids = [rng.randrange(first, tokenizer.size) for _ in range(length)]
        lines.append(TokenizedLine([ids], [], [tokenizer.decode(ids)], [1], Segments([])))
    origin = f"{len(lines)} sentences of random tokens, as the run's data are gone"
    return ParitySample(lines, origin)


def check_parity(run: Run, exact: CTranslate2Engine, candidate: CTranslate2Engine) -> ParityReport:
    """How the `exact` export, in float32, and the `candidate` compare with the run.

    In float32 every translation must have the same score as the run's, if not the same text. By the
    exact export's scores, the candidate's translations may be less likely than the run's by at most
    MAX_LOSS.
    """
    (lines, origin), settings = draw_sample(run), portable_settings(run.recipe.decoding)
    sources = [line.parts[0] for line in lines]
    prefixes = [run.tokenizers.target.opening] * len(sources)
    with one_thread():
        found = search_many(
            [SearchMember(run.model, sources)],
            settings,
            budget=SAMPLE_BUDGET,
            constraints=Constraints(prefixes),
        )
    native = [best for best, *_ in found]
    float32 = [best for best, *_ in exact.search(sources, settings, prefixes=prefixes)]
    quantized = [best for best, *_ in candidate.search(sources, settings, prefixes=prefixes)]
    gaps = [abs(one.score - two.score) for one, two in zip(native, float32, strict=True)]
    mismatched = sum(not gap <= SCORE_TOLERANCE for gap in gaps)  # NaN, too
    loss = _loss(exact, sources, native, quantized)
    refused = None
    if mismatched:
        refused = f"{mismatched} of {origin} are translated differently in float32"
    elif not loss <= MAX_LOSS:
        refused = (
            f"in {candidate.card.precision} its translations of {origin} are less likely by "
            f"{loss:.3f} nats a token; at most {MAX_LOSS} is allowed; give --precision float32 or "
            "auto"
        )
    target = run.tokenizers.target
    compared = zip(lines, native, float32 if mismatched else quantized, strict=True)
    differences = [
        TranslationDifference(
            source=line.texts[0],
            native=target.decode(one.tokens),
            exported=target.decode(two.tokens),
        )
        for line, one, two in compared
        if one.tokens != two.tokens
    ]
    return ParityReport(
        sentences=len(native),
        identical=_count_same(native, float32),
        score_difference=max((gap for gap in gaps if math.isfinite(gap)), default=0.0),
        same=_count_same(native, quantized),
        loss=loss if math.isfinite(loss) else 0.0,
        refused=refused,
        differences=tuple(differences[:MAX_SHOWN]),
    )


def _count_same(some: Sequence[Hypothesis], others: Sequence[Hypothesis]) -> int:
    return sum(one.tokens == other.tokens for one, other in zip(some, others, strict=True))


def _loss(
    exact: CTranslate2Engine,
    sources: Sequence[Sequence[int]],
    native: Sequence[Hypothesis],
    quantized: Sequence[Hypothesis],
) -> float:
    """By how much a token is more likely in the native translations, in nats."""

    def mean(found: Sequence[Hypothesis]) -> float:
        tokens = [hypothesis.tokens for hypothesis in found]
        scored = exact.log_probabilities(zip(sources, tokens, strict=True))
        return sum(map(sum, scored)) / sum(map(len, scored))

    return mean(native) - mean(quantized)
