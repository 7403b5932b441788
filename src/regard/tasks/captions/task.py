"""The task of captioning: pictures -> texts that describe them."""

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple, Self

import numpy as np
from pydantic import Field, PositiveInt

from regard.batching.caption_batches import (
    CaptionBuckets,
    CaptionTokens,
    InputsOf,
    PictureInputs,
    caption_batches,
)
from regard.batching.example_batches import Rows
from regard.corpora.array_store import ArrayStore
from regard.corpora.corpus import SplitName
from regard.corpora.source import SPLITS, rows_by_key
from regard.decoding.settings import BeamSettings, DecodingSettings, RuleSettings
from regard.errors import CorpusError, RunError, SettingsError
from regard.evaluation.metrics import METRICS, MetricName
from regard.evaluation.perplexity import perplexity
from regard.evaluation.scores import Comparison, ScoreSettings, build_metrics, compare, score
from regard.json_files import dump_json
from regard.manifest import sha256
from regard.models.contracts import AnyCaptionModel
from regard.models.translation.token_rows import TARGET_TOKENS
from regard.models.vision.build import CaptionerSettings, build_captioner
from regard.models.vision.show_attend_tell import ShowAttendTellSettings
from regard.tasks.captions.corpus import CaptionCorpus, CaptionedPicture
from regard.tasks.captions.data import CaptionCorpusSettings, build_caption_corpus
from regard.tasks.captions.search import caption_pictures
from regard.tasks.contracts import Evaluation, ExampleStatistics, Notify, Task, TaskRecipe
from regard.tasks.families.picture_features import (
    FeatureStores,
    PictureFeatures,
    keep_encoder,
    load_features,
)
from regard.tasks.families.split_files import SplitFiles
from regard.text.build import load_tokenizer, train_tokenizer
from regard.text.caption_words import caption_words
from regard.text.settings import TokenizerSettings
from regard.text.special_tokens import UNK
from regard.text.tokenizer import Tokenizer
from regard.training.loop import Selection, TrainingTask
from regard.training.loss import batch_loss
from regard.training.settings import TrainingSettings, ValidationSettings
from regard.training.weight_transfer import RowNames

CAPTION_METRICS = ("bleu-1", "bleu-2", "bleu-3", "bleu-4", "cider")
VALIDATION_METRICS = ("bleu-1", "bleu-4", "cider")
VALIDATION_CAPTIONS = 64  # in a batch
TOKENIZER = "tokenizer"  # the name of its files
NOTE_EVERY = 1000  # pictures, while features are computed


class CaptionValidationSettings(ValidationSettings):
    """When and how the model is validated on held-out pictures."""

    by: Literal["bleu-4", "cider", "loss"] = "cider"
    """What selects the best weights: a score of generated captions, or the loss on the
    references."""
    pictures: PositiveInt = 1000
    """The most held-out pictures that are captioned in a validation (the loss is taken over
    all)."""

    @property
    def selection(self) -> Selection:
        """The score that selects the best weights, and its direction."""
        return Selection(self.by, self.by == "loss" or METRICS[self.by].lower_is_better)


class CaptionTrainingSettings(TrainingSettings):
    """How a captioner is trained."""

    batch_captions: PositiveInt = 64
    """Captions in a batch."""
    label_smoothing: float = Field(default=0.0, ge=0, lt=1)
    """Share of each label's probability that is spread evenly over the vocabulary."""
    validation: CaptionValidationSettings = CaptionValidationSettings()
    """When and how the model is validated on held-out pictures."""


class CaptionRecipe(TaskRecipe):
    """One run of a captioner: its data, its model, its training and its search."""

    task: Literal["caption"] = "caption"
    """The task: describing pictures."""
    corpus: CaptionCorpusSettings
    """The training data."""
    text: TokenizerSettings = TokenizerSettings(kind="whitespace", size=0, min_count=5)
    """How captions become tokens, after they are lower-cased and stripped of punctuation."""
    model: CaptionerSettings = ShowAttendTellSettings()
    """The model; `family` selects its kind."""
    training: CaptionTrainingSettings = CaptionTrainingSettings()
    """How the model is trained."""
    decoding: DecodingSettings = DecodingSettings(
        beam=BeamSettings(size=5), rules=RuleSettings(max_length=40)
    )
    """How captions are searched for."""


class CaptionedName(NamedTuple):
    """A picture of a run's data."""

    picture: str
    captions: tuple[str, ...]


class CaptionTask(Task[CaptionRecipe, AnyCaptionModel]):
    """Captions and vocabulary are kept in the run, features of pictures in the cache.

    The run holds a copy of the frozen CNN's weights, so that it still captions new pictures after
    it is moved.
    """

    tokenizer: Tokenizer
    features: PictureFeatures

    def __init__(self, recipe: CaptionRecipe, folder: Path) -> None:
        super().__init__(recipe, folder)
        self.splits = SplitFiles(folder)
        self._corpus: CaptionCorpus | None = None
        self.stores = FeatureStores(self._pictures, NOTE_EVERY)

    # -- data -----------------------------------------------------------------------------------

    def prepare(self, note: Notify, *, resumed: bool) -> None:
        self.stores.note = note
        if not resumed:
            keep_encoder(self.recipe.model.encoder, self.folder)
            self._corpus = self._read_corpus(check_pictures=True)
            for message in self._corpus.read_report.messages():
                note(message)
            for split, pictures in self._corpus.splits.items():
                rows = ({"picture": one.name, "captions": one.captions} for one in pictures)
                self.splits.write(split, rows)
            texts = (" ".join(words) for words in self._training_words())
            train_tokenizer(texts, self.recipe.text).save(self.folder, TOKENIZER)
        self.load()
        for split in filter(self.splits.exists, SPLITS):  # a bad picture ends it before training
            self.store(split)

    def load(self) -> None:
        self.tokenizer = load_tokenizer(self.folder, TOKENIZER)
        self.features = load_features(self.recipe.model.encoder, self.folder)

    @property
    def corpus(self) -> CaptionCorpus:
        """The corpus with the locations of the pictures, read when it is first needed."""
        if self._corpus is None:
            self._corpus = self._read_corpus()
        return self._corpus

    def _read_corpus(self, *, check_pictures: bool = False) -> CaptionCorpus:
        corpus = build_caption_corpus(self.recipe.corpus, check_pictures=check_pictures)
        if not corpus.splits.get("valid"):
            raise CorpusError(
                f"{corpus.name}: training needs pictures to validate with: raise "
                "corpus.split.valid, or give corpus.valid"
            )
        return corpus

    def captions(self, split: SplitName) -> list[CaptionedName]:
        """The pictures of a split with their captions, as the run first read them."""
        rows = self.splits.read(split, "picture", "captions")
        return [CaptionedName(picture, tuple(captions)) for picture, captions in rows]

    def store(self, split: SplitName) -> ArrayStore:
        """The features of a split's pictures, computed unless they are in the cache."""
        return self.stores.of_split(self.features, split)

    def inputs_of(self, split: SplitName) -> InputsOf:
        """Rows of a split's pictures -> what the model reads."""
        store, features = self.store(split), self.features

        def inputs(rows: Rows) -> PictureInputs:
            return features.to_inputs(store.rows(rows))

        return inputs

    def tokens(self, split: SplitName) -> CaptionTokens:
        """The ids of all captions of a split."""
        rows = self.captions(split)
        texts = [" ".join(caption_words(text)) for row in rows for text in row.captions]
        numbers = [number for number, row in enumerate(rows) for _ in row.captions]
        return CaptionTokens(self.tokenizer.encode(texts), np.array(numbers))

    def held_out(self) -> SplitName:
        return "test" if self.splits.exists("test") else "valid"

    def summary(self) -> dict[str, str]:
        splits = [split for split in SPLITS if self.splits.exists(split)]
        counts = {split: [len(row.captions) for row in self.captions(split)] for split in splits}
        tokens = [id for ids in self.tokens("valid").captions for id in ids]
        unknown = tokens.count(UNK) / max(1, len(tokens))
        return {
            **{
                split: f"{len(each):,} pictures, {sum(each):,} captions"
                for split, each in counts.items()
            },
            "vocabulary": f"{self.tokenizer.size:,} tokens; unknown in valid: {unknown:.1%}",
            "regions": self._describe_features(),
        }

    def _describe_features(self) -> str:
        encoder = self.recipe.model.encoder
        rows, columns, width = encoder.picture_shape()
        return f"{encoder.kind}: {rows} × {columns} × {width}"

    def _pictures(self, split: SplitName) -> Sequence[CaptionedPicture]:
        """The pictures that the run read for a split, whichever split of the corpus has
        them now.
        """
        known = rows_by_key(self.corpus.splits, split, lambda picture: picture.name)
        names = [row.picture for row in self.captions(split)]
        if not {*names} <= known.keys():
            raise RunError(
                f"{self.folder}: {self.corpus.name} no longer has all of its {split} pictures; "
                "restore them, or train again in another folder"
            )
        return [known[name] for name in names]

    def _training_words(self) -> Iterator[list[str]]:
        for row in self.captions("train"):
            yield from map(caption_words, row.captions)

    # -- learning and measuring -----------------------------------------------------------------

    def row_names(self) -> RowNames:
        return {TARGET_TOKENS: self.tokenizer.row_names()}

    def new_model(self) -> AnyCaptionModel:
        return build_captioner(self.recipe.model, self.tokenizer.size)

    def check_model(self, model: AnyCaptionModel, note: Notify) -> None:
        """An error if a model with learned positions has too few for regions or captions."""
        limit, regions = model.max_length, math.prod(model.grid)
        if limit is None:
            return
        longest = 1 + max(int(self.tokens(split).lengths.max()) for split in SPLITS[:2])
        if (needed := max(regions, longest)) > limit:
            raise SettingsError(
                f"pictures have {regions} regions, captions up to {longest} tokens, and the model "
                f"has positions for {limit}: raise model.transformer.max_positions to {needed}"
            )

    def training(self, model: AnyCaptionModel) -> TrainingTask:
        settings = self.recipe.training
        return TrainingTask(
            partial(
                caption_batches,
                self.tokens("train"),
                self.inputs_of("train"),
                settings.batch_captions,
                settings.seed,
            ),
            partial(batch_loss, smoothing=settings.label_smoothing),
            self._validate,
            settings.validation.selection,
            CaptionBuckets(model.max_length),
        )

    def _validate(self, model: AnyCaptionModel) -> Mapping[str, float]:
        """Loss and scores on validation pictures, searched greedily."""
        rules = RuleSettings(max_length=self.recipe.decoding.rules.max_length)
        greedy = DecodingSettings(beam=BeamSettings(size=1), rules=rules)
        limit = self.recipe.training.validation.pictures
        texts, references = self.answers(model, "valid", greedy, limit)
        settings = _score_settings(resamples=0)
        settings = settings.model_copy(update={"metrics": VALIDATION_METRICS})
        found = score(texts, references, settings)
        measured = perplexity(
            model,
            self.tokens("valid").held_out_batches(self.inputs_of("valid"), VALIDATION_CAPTIONS),
        )
        scores = {name: one.value for name, one in zip(VALIDATION_METRICS, found, strict=True)}
        return {"loss": measured.loss, "perplexity": measured.value, **scores}

    def answers(
        self,
        model: AnyCaptionModel,
        split: SplitName,
        settings: DecodingSettings,
        limit: int | None = None,
    ) -> tuple[list[str], list[tuple[str, ...]]]:
        """Captions of the pictures of a split, at most `limit`, and their references."""
        rows = self.captions(split)[:limit]
        found = caption_pictures(model, self.inputs_of(split), len(rows), settings)
        return [self.tokenizer.decode(best[0].tokens) for best in found], [
            row.captions for row in rows
        ]

    def evaluate(self, model: AnyCaptionModel, split: SplitName) -> Evaluation:
        texts, references = self.answers(model, split, self.recipe.decoding)
        found = score(texts, references, _score_settings())
        measured = perplexity(
            model, self.tokens(split).held_out_batches(self.inputs_of(split), VALIDATION_CAPTIONS)
        )
        numbers = {one.name: one.value for one in found}
        intervals = ", ".join(
            f"{one.name} {one.interval.low:.1f} to {one.interval.high:.1f}"
            for one in found
            if one.interval is not None
        )
        notes = (
            f"{len(texts):,} pictures; 95% intervals: {intervals}",
            f"BLEU as COCO captions have it, by sacreBLEU: {found[0].signature}",
            f"CIDEr-D times 100: {found[-1].signature}",
            f"perplexity per token, {measured.num_tokens:,} tokens",
        )
        return Evaluation(split, {**numbers, "perplexity": measured.value}, notes)

    def statistics(self, model: AnyCaptionModel, split: SplitName) -> ExampleStatistics:
        """The score that decides in validation, or CIDEr-D."""
        by = self.recipe.training.validation.by
        texts, references = self.answers(model, split, self.recipe.decoding)
        name: MetricName = "cider" if by == "loss" else by
        settings = _score_settings().model_copy(update={"metrics": (name,)})
        [metric] = build_metrics(settings, references)
        return ExampleStatistics(
            metric, metric.count(texts, references), sha256(dump_json(references).encode())
        )

    def compare(
        self, model: AnyCaptionModel, other: Self, its_model: AnyCaptionModel, split: SplitName
    ) -> list[Comparison]:
        """Paired bootstrap tests of the captions of `model` against those of another run."""
        ours, references = self.answers(model, split, self.recipe.decoding)
        if other.captions(split) != self.captions(split):
            raise SettingsError(f"--against: {other.folder} has other {split} pictures or captions")
        theirs, _ = other.answers(its_model, split, other.recipe.decoding)
        return compare(theirs, ours, references, _score_settings())


def _score_settings(resamples: int = 1000) -> ScoreSettings:
    return ScoreSettings(metrics=CAPTION_METRICS, tokenize="coco", resamples=resamples, warn=False)
