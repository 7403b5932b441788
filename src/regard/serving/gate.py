"""Whether an export says what the model says: the gate that it must pass before it is used."""

import math
from collections.abc import Sequence
from random import Random
from typing import NamedTuple

from regard.corpora.pairs import Pair
from regard.decoding.many import Member, one_thread, search_many
from regard.errors import RegardError
from regard.nouns import Hypothesis
from regard.recipes.prepare import load_data
from regard.recipes.run_folder import Run
from regard.serving.exported import Difference, GateReport
from regard.serving.fast import Fast
from regard.serving.lines import Line, read_lines
from regard.serving.searching import for_all_engines
from regard.streams import pick
from regard.text.segments import Segments
from regard.text.special import SPECIAL_PIECES

SENTENCES = 64
"""In the sample."""
LONGEST = 60
"""Tokens of a sentence of it: the native engine must translate them too, and a person waits."""
BUDGET = 2048
"""Positions that the native engine searches at a time."""
ROUNDING = 1e-3
"""Scores this near are the same; float32 differs in the sixth digit."""
MOST_LOSS = 0.02
"""What a lower precision may cost, in nats a token: 2% of a token's probability."""
SHOWN = 5
"""Differences that are kept to be shown."""


class Sample(NamedTuple):
    """Lines to translate, and where they come from."""

    lines: list[Line]
    origin: str


def draw_sample(run: Run) -> Sample:
    """Held-out sources of the run, or sentences made of its vocabulary where its data are gone."""
    tokenizer, longest = run.tokenizers.source, min(LONGEST, run.longest)
    try:
        data = load_data(run.folder)
        split = data.held_out()
        pairs: list[Pair] = pick(data.read(split), SENTENCES)
        lines = read_lines([pair.source for pair in pairs], tokenizer, run.longest)
        lines = [line for line in lines if len(line.parts) == 1 and len(line.parts[0]) <= longest]
    except (RegardError, OSError):
        lines, split = [], "test"
    if lines:
        return Sample(lines, f"{len(lines)} sentences of the run's {split} split")
    chance, first = Random(0), len(SPECIAL_PIECES)
    for _ in range(SENTENCES):
        length = chance.randint(1, min(20, longest))
        ids = [chance.randrange(first, tokenizer.size) for _ in range(length)]
        lines.append(Line([ids], [], [tokenizer.decode(ids)], [1], Segments([])))
    return Sample(lines, f"{len(lines)} sentences of random tokens, as the run's data are gone")


def examine(run: Run, exact: Fast, used: Fast) -> GateReport:
    """How the `exact` export, in float32, and the one to be `used` compare with the run.

    In float32 every sentence must have the same translation with the same score, or another that
    scores the same. The translations of the other are scored by the exact one: on the whole the
    model may hold them `MOST_LOSS` less likely than its own.
    """
    sample, settings = draw_sample(run), for_all_engines(run.recipe.decoding)
    sources = [line.parts[0] for line in sample.lines]
    with one_thread():
        native = _best(search_many([Member(run.model, sources)], settings, budget=BUDGET))
    plain, light = (_best(engine.search(sources, settings)) for engine in (exact, used))
    pairs = list(zip(native, plain, strict=True))
    gaps = [abs(one.score - other.score) for one, other in pairs]
    same = [one.tokens == other.tokens for one, other in pairs]
    wrong = [not gap <= ROUNDING for gap in gaps]  # so that no number is wrong, too
    loss = _loss(exact, sample.lines, native, light)
    refused = None
    if any(wrong):
        refused = f"{sum(wrong)} of {sample.origin} are translated otherwise in float32"
    elif not loss <= MOST_LOSS:
        refused = (
            f"in {used.card.precision} its translations of {sample.origin} are less likely by "
            f"{loss:.3f} nats a token, and {MOST_LOSS} is allowed; give --precision float32 or auto"
        )
    other = plain if any(wrong) else light
    return GateReport(
        sentences=len(native),
        identical=sum(same),
        score_difference=max((gap for gap in gaps if math.isfinite(gap)), default=0.0),
        same=sum(one.tokens == two.tokens for one, two in zip(native, light, strict=True)),
        loss=loss if math.isfinite(loss) else 0.0,
        refused=refused,
        differences=tuple(_differences(run, sample.lines, native, other))[:SHOWN],
    )


def _best(found: Sequence[Sequence[Hypothesis]]) -> list[Hypothesis]:
    return [answers[0] for answers in found]


def _loss(
    exact: Fast, lines: Sequence[Line], native: Sequence[Hypothesis], light: Sequence[Hypothesis]
) -> float:
    """By how much the model holds `light` less likely than `native`, in nats a token."""

    def mean(answers: Sequence[Hypothesis]) -> float:
        pairs = [(line.parts[0], one.tokens) for line, one in zip(lines, answers, strict=True)]
        scored = exact.log_probabilities(pairs)
        return sum(map(sum, scored)) / sum(map(len, scored))

    return mean(native) - mean(light)


def _differences(
    run: Run, lines: Sequence[Line], native: Sequence[Hypothesis], other: Sequence[Hypothesis]
) -> list[Difference]:
    target = run.tokenizers.target
    return [
        Difference(
            source=line.texts[0],
            native=target.decode(one.tokens),
            exported=target.decode(two.tokens),
        )
        for line, one, two in zip(lines, native, other, strict=True)
        if one.tokens != two.tokens
    ]
