"""What each head and each layer of attention is worth: what BLEU loses without it.

After Michel, Levy and Neubig (2019, arXiv 1905.10650), who found most heads free to remove.
"""

from collections.abc import Callable, Sequence
from typing import Annotated, Any, NamedTuple

from pydantic import Field, NonNegativeFloat

from regard.corpora.corpus import UNDETERMINED
from regard.decoding.settings import DecodingSettings
from regard.errors import SettingsError
from regard.evaluation.bleu_tokenizer import TokenizerChoice
from regard.evaluation.metrics import check_lines
from regard.evaluation.scores import Score, ScoreSettings, score
from regard.evaluation.significance import compare
from regard.inspection.interventions import Silenced, list_head_ablations
from regard.inspection.recording.attention_map import PARTS, Part, count_heads
from regard.pipelines.translator import Translator
from regard.settings import Settings

ProgressCallback = Callable[[int, int], None]
"""Told how many of how many translations of the sentences are done."""


class HeadImportanceSettings(Settings):
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


class HeadIndex(NamedTuple):
    """A head of attention."""

    part: Part
    layer: int
    head: int

    def __str__(self) -> str:
        return f"{self.part} {self.layer}.{self.head}"


class AblationResult(NamedTuple):
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


class HeadImportance(NamedTuple):
    """What each head and each layer is worth on some sentences."""

    baseline: Score
    """Of the whole model."""
    sentences: int
    removals: tuple[AblationResult, ...]
    """Of each part its layers in order, of each layer its heads and then the whole."""
    free: tuple[HeadIndex, ...]
    """The heads that each alone cost no more than the tolerance."""
    without_free: float | None
    """BLEU without all of these at once; None where there are none."""
    tolerance: float

    @property
    def heads(self) -> tuple[AblationResult, ...]:
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


def measure_head_importance(
    translator: Translator,
    sources: Sequence[str],
    references: Sequence[str],
    settings: HeadImportanceSettings | None = None,
    *,
    search: DecodingSettings | None = None,
    tell: ProgressCallback = lambda done, total: None,
) -> HeadImportance:
    """What BLEU on `references` loses without each head, each layer, and all that are free at once.

    A layer with one head is measured once. Every number comes from a whole search.
    """
    settings = settings or HeadImportanceSettings()
    check_lines(sources=sources, references=references)
    score_settings = ScoreSettings(
        metrics=("bleu",),
        tokenize=settings.tokenize,
        language=settings.language,
        resamples=settings.resamples,
    )
    scorer = _AblationScorer(translator, sources, references, score_settings, search)
    ablations = _list_ablations(translator, settings)
    num_rounds = len(ablations) + 2  # the whole model first, and what is free last
    tell(0, num_rounds)
    before = scorer.translate(())
    [baseline] = score(before, references, scorer.score_settings)
    removals = []
    for done, silenced in enumerate(ablations, 1):
        tell(done, num_rounds)
        removals.append(scorer.remove(silenced, before))
    tell(num_rounds - 1, num_rounds)
    free = [
        HeadIndex(one.part, one.layer, one.head)
        for one in removals
        if one.head is not None and one.cost <= settings.tolerance
    ]
    bleu_without_free = None
    if free:
        texts = scorer.translate([Silenced(*one) for one in free])
        bleu_without_free = score(texts, references, scorer.score_settings)[0].value
    tell(num_rounds, num_rounds)
    return HeadImportance(
        baseline, len(sources), tuple(removals), tuple(free), bleu_without_free, settings.tolerance
    )


class _AblationScorer(NamedTuple):
    """A model and the sentences that it is measured on."""

    translator: Translator
    sources: Sequence[str]
    references: Sequence[str]
    score_settings: ScoreSettings
    search: DecodingSettings | None

    def translate(self, silenced: Sequence[Silenced]) -> list[str]:
        """The translations without some heads."""
        answers = self.translator.translate(
            self.sources, self.search, changes=silenced, split=False
        )
        return [answer.text for answer in answers]

    def remove(self, silenced: Silenced, before: Sequence[str]) -> AblationResult:
        """What comes of it, where the whole model gives the translations `before`."""
        texts = self.translate([silenced])
        [found] = compare(before, texts, self.references, self.score_settings)
        changed = sum(map(str.__ne__, before, texts)) / len(texts)
        place = silenced.part, silenced.layer, silenced.head
        cost = found.first - found.second
        return AblationResult(*place, found.second, cost, found.p_value, changed)


def _list_ablations(translator: Translator, settings: HeadImportanceSettings) -> list[Silenced]:
    """What to silence: of each layer its heads, then the layer; an only head is its layer."""
    if len(translator.runs) > 1:
        raise SettingsError("the heads of several models cannot be swept together; give one model")
    run = translator.runs[0]
    heads = count_heads(run.model)
    silenced = list_head_ablations({part: heads[part] for part in settings.parts if part in heads})
    if not silenced:
        raise SettingsError(
            f"{run.folder.path}: a model of the family {run.recipe.model.family} has no "
            f"{' or '.join(settings.parts)} attention whose heads could be removed"
        )
    return silenced
