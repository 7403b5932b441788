"""The task of translation: data, model and training of a translator or a chatbot."""

from collections.abc import Iterator, Sequence
from functools import cached_property

from regard.corpora.cleaning.pair_filters import CleaningReport
from regard.corpora.diagnostics.findings import advise_dropped
from regard.corpora.pair_texts import PreparedData
from regard.models.build import build_model
from regard.models.contracts import AnyGenerator
from regard.models.translation.token_rows import SOURCE_TOKENS, TARGET_TOKENS
from regard.recipes.run_folder import RunFolder, load_data, memory_limit
from regard.settings import SettingChoice
from regard.tasks.contracts import CardParts, Notify, SecondStage, TrainableTask
from regard.tasks.translation.auto_settings import run_input_settings
from regard.tasks.translation.batches import build_batches, build_buckets, build_loss
from regard.tasks.translation.recipe import TranslationRecipe
from regard.tasks.translation.refinement import build_refinement_loss
from regard.tasks.translation.training_inputs import TrainingInputs, prepare
from regard.tasks.translation.validation import (
    build_validation,
    check_max_positions,
    position_limit,
    with_bleu_tokenizer,
)
from regard.text.build import Tokenizers, load_tokenizers
from regard.text.segmentation import InputSettings
from regard.training.checkpoints import last_progress
from regard.training.loop import TrainingTask
from regard.training.loss import LossFn
from regard.training.metric_log import read_metrics
from regard.training.weight_transfer import RowNames


class Translation(TrainableTask[TranslationRecipe, AnyGenerator]):
    """Pairs of texts, their vocabularies, and a model that learns one text from the other."""

    tokenizers: Tokenizers

    def prepare(self, note: Notify, *, resumed: bool) -> None:
        inputs = prepare(
            self.recipe,
            self.folder,
            note,
            device=self.device,
            given=self.given_tokenizers,
            resumed=resumed,
        )
        self.tokenizers = inputs.tokenizers
        self.recipe = with_bleu_tokenizer(inputs.recipe, inputs.data, note)
        self.inputs = inputs._replace(recipe=self.recipe)

    @cached_property
    def inputs(self) -> TrainingInputs:
        """The inputs of the model's training, also of a run that was only loaded."""
        return prepare(self.recipe, self.folder, lambda _: None, resumed=True)

    def record(self) -> None:
        """Nothing: `prepare` has written the description, so as not to repeat its work."""

    def load(self) -> None:
        self.tokenizers = load_tokenizers(self.folder)

    def input_settings(self) -> InputSettings:
        """How a line of input is split, and which parts of it are translated."""
        return run_input_settings(self.recipe, self.folder)

    def vocabularies(self) -> Tokenizers:
        return self.tokenizers

    def new_model(self) -> AnyGenerator:
        return build_translator(self.recipe, self.tokenizers)

    def check_model(self, model: AnyGenerator, note: Notify) -> None:
        check_max_positions(model, self.inputs, note)

    def row_names(self) -> RowNames:
        kinds = zip((SOURCE_TOKENS, TARGET_TOKENS), self.tokenizers, strict=True)
        return {kind: one.row_names() for kind, one in kinds}

    def training(self, model: AnyGenerator) -> TrainingTask:
        return self._stage(model, self.recipe, build_loss(self.recipe.training))

    def second_stage(self, model: AnyGenerator) -> SecondStage | None:
        """Refinement, which starts from the final weights of training as step 0."""
        settings, tokenize = self.recipe.second_stage_settings(), self.recipe.evaluation.tokenize
        if self.recipe.refinement is None or settings is None:
            return None
        assert tokenize != "auto"  # `prepare` has chosen
        loss = build_refinement_loss(self.recipe.refinement, self.tokenizers.target, tokenize)
        refined = self.recipe.model_copy(update={"training": settings})
        training = self._stage(model, refined, loss)._replace(validate_first=True)
        return SecondStage(
            training,
            settings,
            no_gain="refinement never raised the GLEU on the validation pairs: the model keeps the "
            "final weights of training",
        )

    def _stage(self, model: AnyGenerator, recipe: TranslationRecipe, loss: LossFn) -> TrainingTask:
        return TrainingTask(
            build_batches(recipe, self.inputs, next(model.parameters()).device),
            loss,
            build_validation(recipe, self.inputs, max_tokens=position_limit(model)),
            recipe.training.validation.selection,
            build_buckets(recipe.training, model),
        )

    def summary(self) -> dict[str, str]:
        (source, target), counts = self.tokenizers, self.inputs.data.pairs.items()
        found = {"pairs": ", ".join(f"{count:,} {split}" for split, count in counts)}
        if too_long := self.inputs.num_too_long:
            limit = self.recipe.training.max_tokens
            found["left out"] = f"{too_long:,} pairs with more than {limit:,} tokens"
        other = "shared" if source is target else f"and {target.size:,}"
        return {**found, "vocabulary": f"{source.size:,} {other}"}

    def cleaning_report(self) -> CleaningReport:
        return self.inputs.data.report

    def choices(self) -> Sequence[SettingChoice]:
        return self.inputs.choices

    def warnings(self) -> Sequence[str]:
        found = (advise_dropped(self.inputs.data.report), str(self.inputs.truncation))
        return [warning for warning in found if warning]

    def origin(self) -> str:
        return self.inputs.data.origin

    def card(self) -> CardParts:
        folder, by = RunFolder(self.folder), self.recipe.training.validation.by
        data = load_data(folder)
        return CardParts(
            " → ".join(data.languages),
            tuple(_data_lines(data)),
            f"best by {by} on the validation pairs",
            () if self.recipe.refinement is None else tuple(_refinement_lines(folder.refined)),
            usage=True,
        )


def new_model(recipe: TranslationRecipe, tokenizers: Tokenizers) -> AnyGenerator:
    """The recipe's model, initialized by torch's generator; an error if it is too large."""
    with memory_limit():
        return build_translator(recipe, tokenizers)


def build_translator(recipe: TranslationRecipe, tokenizers: Tokenizers) -> AnyGenerator:
    """A new model of a recipe for these vocabularies."""
    source, target = tokenizers
    return build_model(recipe.model, source.size, target.size, joint=tokenizers.joint)


def _data_lines(data: PreparedData) -> Iterator[str]:
    yield f"{data.origin or 'Files of the trainer.'}\n"
    yield f"SHA-256 of the cleaned texts: `{data.digest}`.\n"
    counts = ", ".join(f"{count:,} {name}" for name, count in data.pairs.items())
    yield f"Pairs: {counts}."
    if data.report.dropped:
        yield f"Dropped from training, of {data.report.total:,}:\n"
        yield "| why | pairs | share |\n|---|---:|---:|"
        for row in data.report.rows():
            yield f"| {row.reason} | {row.num_pairs:,} | {row.share:.2%} |"


def _refinement_lines(folder: RunFolder) -> Iterator[str]:
    """Lines about refinement."""
    progress = last_progress(folder.path)
    if progress is None:
        return
    yield f"- refinement by expected GLEU: {progress.step:,} steps in {progress.seconds:,.0f} s"
    step = progress.best[0][1]
    if step == 0:
        yield "- weights after it: the same, as no others had a higher GLEU on the validation pairs"
        return
    records = read_metrics(folder.path / "metrics.jsonl")
    valid = {record["step"]: record for record in records if record["kind"] == "valid"}
    before, after = valid[0], valid[step]
    gains = [f"{name.upper()} {before[name]:.2f} → {after[name]:.2f}" for name in ("gleu", "bleu")]
    yield f"- weights after it: those of its step {step:,}; validation {', '.join(gains)}"
