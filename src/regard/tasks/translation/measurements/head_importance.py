"""Head ablations: a translation, or its BLEU, without each head and layer of attention, after
Michel, Levy and Neubig (2019, arXiv 1905.10650).
"""

from collections.abc import Callable, Sequence
from typing import Annotated, Any, NamedTuple

from pydantic import Field, NonNegativeFloat

from regard.corpora.corpus import UNDETERMINED
from regard.decoding.settings import DecodingSettings
from regard.errors import SettingsError
from regard.evaluation.bleu_tokenizer import TokenizerChoice
from regard.evaluation.metrics import check_lines
from regard.evaluation.scores import Score, ScoreSettings, compare, score
from regard.inspection.interventions import Silenced, list_head_ablations
from regard.inspection.recording.attention_map import PARTS, Part
from regard.inspection.recording.recorder import count_heads
from regard.settings import Settings
from regard.tasks.translation.pipeline import Translator

ProgressCallback = Callable[[int, int], None]  # called with the finished translations, and all


class HeadImportanceSettings(Settings):
    """How the importance of heads is measured."""

    parts: tuple[Part, ...] = PARTS
    """The parts of the model whose heads are silenced; parts that it lacks are left out."""
    tolerance: NonNegativeFloat = 0.1
    """A head is free to remove if its removal costs at most this much BLEU."""
    tokenize: TokenizerChoice = "auto"
    """BLEU's tokenizer; `auto`: chosen by the language, or by the references' script."""
    language: str = UNDETERMINED
    """The language of the references."""
    resamples: Annotated[int, Field(ge=100)] = 1000
    """Bootstrap resamples for the interval and the p-values."""


class AblationResult(NamedTuple):
    """The effect of silencing one head, or all heads of a layer."""

    part: Part
    layer: int
    head: int | None  # none: the whole layer
    bleu: float
    cost: float  # BLEU lost; negative: gained
    p_value: float | None  # of a paired bootstrap test; None: there are too few sentences
    changed: float  # the share of sentences whose translation changes


class HeadImportance(NamedTuple):
    """The effects of all ablations on some sentences."""

    baseline: Score  # of the whole model
    sentences: int
    removals: tuple[AblationResult, ...]  # by part and layer; of each layer its heads, then all
    free: tuple[Silenced, ...]  # the heads whose removal alone costs no more than the tolerance
    without_free: float | None  # BLEU without all of these at once; None if there are none
    tolerance: float

    @property
    def heads(self) -> tuple[AblationResult, ...]:
        """The removals of single heads."""
        return tuple(removal for removal in self.removals if removal.head is not None)

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
            "free": [{"part": one.part, "layer": one.layer, "head": one.head} for one in self.free],
            "without_free": self.without_free,
        }


def measure_head_importance(
    translator: Translator,
    sources: Sequence[str],
    references: Sequence[str],
    settings: HeadImportanceSettings | None = None,
    *,
    search: DecodingSettings | None = None,
    progress: ProgressCallback = lambda done, total: None,
) -> HeadImportance:
    """The BLEU lost without each head, each layer, and all free heads at once, measured by a full
    search each. A layer with one head is measured once.
    """
    settings = settings or HeadImportanceSettings()
    check_lines(sources=sources, references=references)
    score_settings = ScoreSettings(
        metrics=("bleu",),
        tokenize=settings.tokenize,
        language=settings.language,
        resamples=settings.resamples,
    )

    def translate(silenced: Sequence[Silenced]) -> list[str]:
        answers = translator.translate(sources, search, changes=silenced, split=False)
        return [answer.text for answer in answers]

    ablations = _list_ablations(translator, settings)
    num_rounds = len(ablations) + 2  # the whole model first, and without all free heads last
    progress(0, num_rounds)
    before = translate(())
    [baseline] = score(before, references, score_settings)
    removals, free = [], []
    for done, silenced in enumerate(ablations, 1):
        progress(done, num_rounds)
        texts = translate([silenced])
        [difference] = compare(before, texts, references, score_settings)
        changed = sum(map(str.__ne__, before, texts)) / len(texts)
        cost, bleu = difference.first - difference.second, difference.second
        head = silenced.part, silenced.layer, silenced.head
        removals.append(AblationResult(*head, bleu, cost, difference.p_value, changed))
        if silenced.head is not None and cost <= settings.tolerance:
            free.append(silenced)
    progress(num_rounds - 1, num_rounds)
    without_free = score(translate(free), references, score_settings)[0].value if free else None
    progress(num_rounds, num_rounds)
    return HeadImportance(
        baseline, len(sources), tuple(removals), tuple(free), without_free, settings.tolerance
    )


def _list_ablations(translator: Translator, settings: HeadImportanceSettings) -> list[Silenced]:
    if len(translator.runs) > 1:
        raise SettingsError("head importance is measured for one model; give one model")
    run = translator.runs[0]
    heads = count_heads(run.model)
    silenced = list_head_ablations({part: heads[part] for part in settings.parts if part in heads})
    if not silenced:
        raise SettingsError(
            f"{run.folder.path}: a model of the family {run.recipe.model.family} has no "
            f"{' or '.join(settings.parts)} attention whose heads could be removed"
        )
    return silenced
