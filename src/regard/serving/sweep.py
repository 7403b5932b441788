"""What each head and each layer of attention is worth: what BLEU loses without it.

After Michel, Levy and Neubig (2019, arXiv 1905.10650), who found most heads free to remove.
"""

from collections.abc import Callable, Sequence
from typing import Annotated, Any, NamedTuple

from pydantic import Field, NonNegativeFloat

from regard.corpora.pairs import UNDETERMINED
from regard.decoding.settings import DecodingSettings
from regard.errors import SettingsError
from regard.evaluation.bleu_tokenizer import TokenizerChoice
from regard.evaluation.metrics import check_lines
from regard.evaluation.scores import Score, ScoreSettings, score
from regard.evaluation.significance import compare
from regard.inspection.changes import Silenced, list_silenced
from regard.inspection.record import PARTS, Part, count_heads
from regard.serving.translator import Translator
from regard.settings import Settings

Tell = Callable[[int, int], None]
"""Told how many of how many translations of the sentences are done."""


class SweepSettings(Settings):
    """How the worth of heads is measured."""

    parts: tuple[Part, ...] = PARTS
    """The parts of the model whose heads are silenced; those it has not are left out."""
    tolerance: NonNegativeFloat = 0.1
    """A head is free to remove if that costs no more BLEU than this."""
    tokenize: TokenizerChoice = "auto"
    """How BLEU cuts lines into words; `auto`: by the language, or the references' script."""
    language: str = UNDETERMINED
    """The language of the references."""
    resamples: Annotated[int, Field(ge=100)] = 1000
    """Bootstrap resamples behind the interval and the p-values."""


class Head(NamedTuple):
    """A head of attention."""

    part: Part
    layer: int
    head: int

    def __str__(self) -> str:
        return f"{self.part} {self.layer}.{self.head}"


class Removal(NamedTuple):
    """What comes of silencing one head, or all heads of a layer."""

    part: Part
    layer: int
    head: int | None
    """None: the whole layer."""
    bleu: float
    cost: float
    """BLEU that is lost; below 0 it is gained."""
    p_value: float
    """How often chance alone would make as large a difference: a paired bootstrap test."""
    changed: float
    """The share of sentences whose translation is another."""


class Sweep(NamedTuple):
    """What each head and each layer is worth on some sentences."""

    baseline: Score
    """Of the whole model."""
    sentences: int
    removals: tuple[Removal, ...]
    """Of each part its layers in order, of each layer its heads and then the whole."""
    free: tuple[Head, ...]
    """The heads that each alone cost no more than the tolerance."""
    without_free: float | None
    """BLEU without all of these at once; None where there are none."""
    tolerance: float

    @property
    def heads(self) -> tuple[Removal, ...]:
        """The removals of single heads."""
        return tuple(one for one in self.removals if one.head is not None)

    def to_json(self) -> dict[str, Any]:
        return {
            "sentences": self.sentences,
            "baseline": {
                "bleu": self.baseline.value,
                "interval": list(self.baseline.interval or ()),
                "signature": self.baseline.signature,
            },
            "removals": [one._asdict() for one in self.removals],
            "tolerance": self.tolerance,
            "free": [one._asdict() for one in self.free],
            "without_free": self.without_free,
        }


def sweep_heads(
    translator: Translator,
    sources: Sequence[str],
    references: Sequence[str],
    settings: SweepSettings | None = None,
    *,
    search: DecodingSettings | None = None,
    tell: Tell = lambda done, total: None,
) -> Sweep:
    """What BLEU on `references` loses without each head, each layer, and all that are free at once.

    A layer with one head is measured once. Every number comes from a whole search.
    """
    settings = settings or SweepSettings()
    check_lines(sources=sources, references=references)
    how = ScoreSettings(
        metrics=("bleu",),
        tokenize=settings.tokenize,
        language=settings.language,
        resamples=settings.resamples,
    )
    measure = _Measure(translator, sources, references, how, search)
    removed = _removable(translator, settings)
    rounds = len(removed) + 2  # the whole model first, and what is free last
    tell(0, rounds)
    before = measure.translate(())
    [baseline] = score(before, references, measure.how)
    removals = []
    for done, silenced in enumerate(removed, 1):
        tell(done, rounds)
        removals.append(measure.remove(silenced, before))
    tell(rounds - 1, rounds)
    free = [
        Head(one.part, one.layer, one.head)
        for one in removals
        if one.head is not None and one.cost <= settings.tolerance
    ]
    together = None
    if free:
        texts = measure.translate([Silenced(*one) for one in free])
        together = score(texts, references, measure.how)[0].value
    tell(rounds, rounds)
    return Sweep(baseline, len(sources), tuple(removals), tuple(free), together, settings.tolerance)


class _Measure(NamedTuple):
    """A model and the sentences that it is measured on."""

    translator: Translator
    sources: Sequence[str]
    references: Sequence[str]
    how: ScoreSettings
    search: DecodingSettings | None

    def translate(self, silenced: Sequence[Silenced]) -> list[str]:
        """The translations without some heads."""
        answers = self.translator.translate(
            self.sources, self.search, changes=silenced, split=False
        )
        return [answer.text for answer in answers]

    def remove(self, silenced: Silenced, before: Sequence[str]) -> Removal:
        """What comes of it, where the whole model gives the translations `before`."""
        texts = self.translate([silenced])
        [found] = compare(before, texts, self.references, self.how)
        changed = sum(map(str.__ne__, before, texts)) / len(texts)
        place = silenced.part, silenced.layer, silenced.head
        cost = found.first - found.second
        return Removal(*place, found.second, cost, found.p_value, changed)


def _removable(translator: Translator, settings: SweepSettings) -> list[Silenced]:
    """What to silence: of each layer its heads, then the layer; an only head is its layer."""
    if len(translator.runs) > 1:
        raise SettingsError("the heads of several models cannot be swept together; give one model")
    run = translator.runs[0]
    heads = count_heads(run.model)
    silenced = list_silenced({part: heads[part] for part in settings.parts if part in heads})
    if not silenced:
        raise SettingsError(
            f"{run.folder.path}: a model of the family {run.recipe.model.family} has no "
            f"{' or '.join(settings.parts)} attention whose heads could be removed"
        )
    return silenced
