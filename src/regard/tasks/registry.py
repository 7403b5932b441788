"""All tasks. Importing this imports none of them."""

from regard.errors import SettingsError
from regard.settings import abbreviate
from regard.tasks.spec import Lazy, TaskSpec, TaskVerb

SAMPLES = "regard.pipelines.exchange.onnx.onnx_samples"
PAIRS = "regard.corpora.pairs.build:CorpusSettings"
TEXTS = "regard.corpora.running_text:RunningTextSettings"
PARITY = "regard.pipelines.exchange.task_parity"

VERBS: dict[str, TaskVerb] = {
    "translate": TaskVerb(
        "Translate lines from a file or stdin to stdout, one for one; or documents.",
        Lazy("regard.tasks.translation.options:TranslateOptions"),
    ),
    "chat": TaskVerb(
        "Talk to a model that has learned from dialogues, in the terminal or through a pipe.",
        Lazy("regard.tasks.translation.chat.options:ChatOptions"),
    ),
    "complete": TaskVerb(
        "Continue texts with a language model, by sampling or search.",
        Lazy("regard.tasks.language.options:CompleteOptions"),
    ),
    "fill": TaskVerb(
        "Fill masked places of texts: the likeliest tokens with their probabilities.",
        Lazy("regard.tasks.masked.options:FillOptions"),
    ),
    "classify": TaskVerb(
        "Sort texts or pictures into classes, with calibrated probabilities.",
        Lazy("regard.tasks.families.classify_options:ClassifyOptions"),
    ),
    "caption": TaskVerb(
        "Describe pictures: files, folders, or a list of them on stdin.",
        Lazy("regard.tasks.captions.options:CaptionOptions"),
    ),
    "forecast": TaskVerb(
        "Forecast the numbers that follow a series.",
        Lazy("regard.tasks.forecast.options:ForecastOptions"),
    ),
    "embed": TaskVerb(
        "Print vectors of words in their context, by a bidirectional language model.",
        Lazy("regard.tasks.embedding.options:EmbedOptions"),
    ),
}
"""By name, in the order of `regard --help`."""
TASKS: dict[str, TaskSpec] = {
    spec.name: spec
    for spec in (
        TaskSpec(
            name="translation",
            verb="translate",
            recipe=Lazy("regard.tasks.translation.recipe:TranslationRecipe"),
            corpus=Lazy(PAIRS),
            task=Lazy("regard.tasks.translation.task:Translation"),
            pipeline=Lazy("regard.tasks.translation.pipeline:Translator"),
            inputs=Lazy(f"{SAMPLES}:source_texts"),
            parity=Lazy("regard.pipelines.exchange.translation_parity:TranslationParity"),
            load=Lazy("regard.tasks.translation.pipeline:load"),
            evaluator=Lazy("regard.tasks.translation.measurements.evaluation:TranslationEvaluator"),
            rows=Lazy("regard.tasks.translation.comparison.rows:TranslatorRows"),
            pairs=True,
            ctranslate2=True,
            ensembles=True,
            input=" < FILE",
        ),
        TaskSpec(
            name="chat",
            verb="chat",
            recipe=Lazy("regard.tasks.translation.recipe:TranslationRecipe"),
            corpus=Lazy(PAIRS),
            task=Lazy("regard.tasks.translation.task:Translation"),
            pipeline=Lazy("regard.tasks.translation.chat.pipeline:Chatbot"),
            inputs=Lazy(f"{SAMPLES}:source_texts"),
            load=Lazy("regard.tasks.translation.chat.pipeline:load"),
            evaluator=Lazy("regard.tasks.translation.chat.evaluation:ChatEvaluator"),
            rows=None,
            pairs=True,
        ),
        TaskSpec(
            name="forecast",
            verb="forecast",
            recipe=Lazy("regard.tasks.forecast.task:ForecastRecipe"),
            corpus=Lazy("regard.tasks.forecast.series:SeriesSettings"),
            task=Lazy("regard.tasks.forecast.task:Forecast"),
            pipeline=Lazy("regard.tasks.forecast.pipeline:Forecaster"),
            inputs=Lazy(f"{SAMPLES}:series"),
            facts=Lazy(f"{SAMPLES}:series_facts"),
            logits=False,
        ),
        TaskSpec(
            name="language-model",
            verb="complete",
            recipe=Lazy("regard.tasks.language.task:LanguageModelRecipe"),
            corpus=Lazy(TEXTS),
            task=Lazy("regard.tasks.language.task:LanguageModelling"),
            pipeline=Lazy("regard.tasks.language.pipeline:Completer"),
            inputs=Lazy(f"{SAMPLES}:texts"),
            parity=Lazy(f"{PARITY}:LanguageModelParity"),
        ),
        TaskSpec(
            name="bidirectional-language-model",
            verb="embed",
            recipe=Lazy("regard.tasks.embedding.task:BidirectionalRecipe"),
            corpus=Lazy(TEXTS),
            task=Lazy("regard.tasks.embedding.task:BidirectionalModelling"),
            pipeline=Lazy("regard.tasks.embedding.pipeline:Embedder"),
            inputs=Lazy(f"{SAMPLES}:texts"),
            logits=False,
        ),
        TaskSpec(
            name="masked-language-model",
            verb="fill",
            recipe=Lazy("regard.tasks.masked.task:MaskedLanguageRecipe"),
            corpus=Lazy(TEXTS),
            task=Lazy("regard.tasks.masked.task:MaskedLanguageModelling"),
            pipeline=Lazy("regard.tasks.masked.pipeline:Filler"),
            inputs=Lazy(f"{SAMPLES}:texts"),
            facts=Lazy(f"{SAMPLES}:masked_facts"),
            parity=Lazy(f"{PARITY}:MaskedLanguageParity"),
        ),
        TaskSpec(
            name="caption",
            verb="caption",
            recipe=Lazy("regard.tasks.captions.task:CaptionRecipe"),
            corpus=Lazy("regard.tasks.captions.data:CaptionCorpusSettings"),
            task=Lazy("regard.tasks.captions.task:CaptionTask"),
            pipeline=Lazy("regard.tasks.captions.pipeline:Captioner"),
            inputs=Lazy(f"{SAMPLES}:captioned_pictures"),
            facts=Lazy(f"{SAMPLES}:caption_facts"),
        ),
        TaskSpec(
            name="text-classification",
            verb="classify",
            recipe=Lazy("regard.tasks.text_classes.task:TextClassificationRecipe"),
            corpus=Lazy("regard.corpora.labelled_texts:LabelledTextSettings"),
            task=Lazy("regard.tasks.text_classes.task:TextClassification"),
            pipeline=Lazy("regard.tasks.text_classes.pipeline:TextLabelPipeline"),
            inputs=Lazy(f"{SAMPLES}:texts"),
            facts=Lazy(f"{SAMPLES}:text_label_facts"),
            parity=Lazy(f"{PARITY}:TextClassificationParity"),
            evaluator=Lazy("regard.tasks.families.label_pipeline:LabelEvaluator"),
            ensembles=True,
        ),
        TaskSpec(
            name="picture-classification",
            verb="classify",
            recipe=Lazy("regard.tasks.picture_classes.task:PictureClassificationRecipe"),
            corpus=Lazy("regard.tasks.picture_classes.data:LabelledPictureSettings"),
            task=Lazy("regard.tasks.picture_classes.task:PictureClassification"),
            pipeline=Lazy("regard.tasks.picture_classes.pipeline:PictureLabelPipeline"),
            inputs=Lazy(f"{SAMPLES}:pictures"),
            facts=Lazy(f"{SAMPLES}:picture_facts"),
            parity=Lazy("regard.pipelines.exchange.picture_parity:PictureParity"),
            evaluator=Lazy("regard.tasks.families.label_pipeline:LabelEvaluator"),
            ensembles=True,
        ),
    )
}
"""By name."""
DEFAULT_TASK = next(iter(TASKS))
"""The task of a recipe that names none."""


def find_task(name: object, where: str) -> TaskSpec:
    """The row of a task; error messages name the file `where`."""
    if isinstance(name, str) and name in TASKS:
        return TASKS[name]
    known = ", ".join(TASKS)
    raise SettingsError(f"{where}: task: unknown, got {abbreviate(repr(name))}; there are {known}")


def tasks_of(verb: str) -> tuple[str, ...]:
    """The names of the tasks whose runs a command uses."""
    return tuple(spec.name for spec in TASKS.values() if spec.verb == verb)


def tasks_of_pairs() -> tuple[str, ...]:
    """The names of the tasks that learn from pairs of texts."""
    return tuple(spec.name for spec in TASKS.values() if spec.pairs)
