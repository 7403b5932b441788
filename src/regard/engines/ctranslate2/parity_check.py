"""Whether an export says what the model says: the gate that it must pass before it is used."""

import math
from collections.abc import Sequence
from random import Random
from typing import NamedTuple

from regard.corpora.corpus import Pair
from regard.decoding.batch_search import SearchMember, one_thread, search_many
from regard.decoding.settings import portable_settings
from regard.engines.ctranslate2.ct2_engine import CTranslate2Engine
from regard.engines.ctranslate2.export_artifact import ParityReport, TranslationDifference
from regard.errors import RegardError
from regard.iterate import reservoir_sample
from regard.recipes.prepared_data import load_data
from regard.recipes.run_folder import Run
from regard.text.preprocess import TokenizedLine, tokenize_lines
from regard.text.segmentation import Segments
from regard.text.special_tokens import SPECIAL_PIECES
from regard.types import Hypothesis

SAMPLE_SIZE = 64
"""In the sample."""
MAX_SAMPLE_TOKENS = 60
"""Tokens of a sentence of it: the native engine must translate them too, and a person waits."""
SAMPLE_BUDGET = 2048
"""Positions that the native engine searches at a time."""
SCORE_TOLERANCE = 1e-3
"""Scores this near are the same; float32 differs in the sixth digit."""
MAX_LOSS = 0.02
"""What a lower precision may cost, in nats a token: 2% of a token's probability."""
MAX_SHOWN = 5
"""Differences that are kept to be shown."""


class ParitySample(NamedTuple):
    """Lines to translate, and where they come from."""

    lines: list[TokenizedLine]
    origin: str


def draw_sample(run: Run) -> ParitySample:
    """Held-out sources of the run, or sentences made of its vocabulary where its data are gone."""
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
    return ParitySample(
        lines, f"{len(lines)} sentences of random tokens, as the run's data are gone"
    )


def check_parity(run: Run, exact: CTranslate2Engine, candidate: CTranslate2Engine) -> ParityReport:
    """How the `exact` export, in float32, and the one to be `used` compare with the run.

    In float32 every sentence must have the same translation with the same score, or another that
    scores the same. The translations of the other are scored by the exact one: on the whole the
    model may hold them `MOST_LOSS` less likely than its own.
    """
    sample, settings = draw_sample(run), portable_settings(run.recipe.decoding)
    sources = [line.parts[0] for line in sample.lines]
    with one_thread():
        native = _top_hypotheses(
            search_many([SearchMember(run.model, sources)], settings, budget=SAMPLE_BUDGET)
        )
    float32_results, quantized = (
        _top_hypotheses(engine.search(sources, settings)) for engine in (exact, candidate)
    )
    pairs = list(zip(native, float32_results, strict=True))
    score_gaps = [abs(one.score - other.score) for one, other in pairs]
    same = [one.tokens == other.tokens for one, other in pairs]
    mismatched = [
        not gap <= SCORE_TOLERANCE for gap in score_gaps
    ]  # so that no number is wrong, too
    loss = _loss(exact, sample.lines, native, quantized)
    refused = None
    if any(mismatched):
        refused = f"{sum(mismatched)} of {sample.origin} are translated otherwise in float32"
    elif not loss <= MAX_LOSS:
        refused = (
            f"in {candidate.card.precision} its translations of {sample.origin} are less likely by "
            f"{loss:.3f} nats a token, and {MAX_LOSS} is allowed; give --precision float32 or auto"
        )
    other = float32_results if any(mismatched) else quantized
    return ParityReport(
        sentences=len(native),
        identical=sum(same),
        score_difference=max((gap for gap in score_gaps if math.isfinite(gap)), default=0.0),
        same=sum(one.tokens == two.tokens for one, two in zip(native, quantized, strict=True)),
        loss=loss if math.isfinite(loss) else 0.0,
        refused=refused,
        differences=tuple(_differences(run, sample.lines, native, other))[:MAX_SHOWN],
    )


def _top_hypotheses(found: Sequence[Sequence[Hypothesis]]) -> list[Hypothesis]:
    return [answers[0] for answers in found]


def _loss(
    exact: CTranslate2Engine,
    lines: Sequence[TokenizedLine],
    native: Sequence[Hypothesis],
    quantized: Sequence[Hypothesis],
) -> float:
    """By how much the model holds `light` less likely than `native`, in nats a token."""

    def mean(answers: Sequence[Hypothesis]) -> float:
        pairs = [(line.parts[0], one.tokens) for line, one in zip(lines, answers, strict=True)]
        scored = exact.log_probabilities(pairs)
        return sum(map(sum, scored)) / sum(map(len, scored))

    return mean(native) - mean(quantized)


def _differences(
    run: Run,
    lines: Sequence[TokenizedLine],
    native: Sequence[Hypothesis],
    other: Sequence[Hypothesis],
) -> list[TranslationDifference]:
    target = run.tokenizers.target
    return [
        TranslationDifference(
            source=line.texts[0],
            native=target.decode(one.tokens),
            exported=target.decode(two.tokens),
        )
        for line, one, two in zip(lines, native, other, strict=True)
        if one.tokens != two.tokens
    ]
