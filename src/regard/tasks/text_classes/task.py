"""The task of sorting texts, or pairs of texts, into classes."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import NonNegativeFloat, model_validator
from torch import Tensor

from regard.batching.collate import pad
from regard.batching.example_batches import shortest_first
from regard.batching.shape_buckets import Buckets, RowBuckets
from regard.corpora.corpus import ReadReport
from regard.corpora.labelled_texts import (
    LabelledText,
    LabelledTextSettings,
    Splits,
    read_labelled_texts,
)
from regard.corpora.labels import LabelledExample
from regard.corpora.source import SPLITS
from regard.errors import RunError, SettingsError
from regard.evaluation.classification import Classified, fit_temperature
from regard.manifest import sha256
from regard.models.classification.naive_bayes import NaiveBayes, NgramCounts, count_ngrams
from regard.models.classification.text_classifier import (
    LABELS_WITH_NGRAMS,
    TextClassifier,
    TextClassifierSettings,
)
from regard.models.contracts import AnyPredictor
from regard.settings import Settings, counted
from regard.tasks.contracts import Notify, SplitName, TaskRecipe, without_vocabulary
from regard.tasks.families.classification import (
    EVALUATION_ROWS,
    AnyClassificationTask,
    ClassificationRecipe,
    ClassificationTask,
    ClassificationTrainingSettings,
    InputsOf,
)
from regard.text.build import JOINT, load_tokenizer
from regard.text.settings import TokenizerSettings
from regard.text.special_tokens import EOS, UNK
from regard.text.tokenizer import Tokenizer
from regard.training.checkpoints import load_weights, save_weights
from regard.training.loss import LossFn, batch_loss
from regard.training.settings import require_dropout
from regard.training.weight_transfer import RowNames
from regard.types import Padded

NGRAMS_FILE = "ngrams.safetensors"  # in a run's data folder
STANDARDIZED_TEXTS = 10_000  # the most training texts over which pooled vectors are standardized


class TextClassificationTrainingSettings(ClassificationTrainingSettings):
    """How a classifier of texts is trained."""

    consistency: NonNegativeFloat = 0.0
    """Weight of the loss for disagreement between two passes with different dropout over the same
    text (R-Drop, Liang et al. 2021); it doubles the work of a step. 0: a single pass."""


class TextClassificationRecipe(ClassificationRecipe):
    """One run of a classifier of texts: its data, its model and its training."""

    task: Literal["text-classification"]
    """The task: predicting the label of a text."""
    corpus: LabelledTextSettings
    """The training data."""
    text: TokenizerSettings = TokenizerSettings(byte_level=True)
    """How text becomes tokens."""
    model: TextClassifierSettings
    """The model."""
    training: TextClassificationTrainingSettings = TextClassificationTrainingSettings()
    """How the model is trained."""

    def vocabulary_settings(self) -> TokenizerSettings:
        return self.text

    @model_validator(mode="after")
    def _check_encoder(self) -> Self:
        if self.model.encoder is None and self.start is None:
            raise ValueError(
                "model.encoder: missing: give one, or start from the model of a run: --from RUN"
            )
        return self

    @model_validator(mode="after")
    def _check_consistency_has_dropout(self) -> Self:
        if self.model.encoder is not None:  # else that of a run, which is checked when it is known
            require_dropout(self.training.consistency, self.model, self.model.encoder)
        return self

    @model_validator(mode="after")
    def _check_no_adapter_counts(self) -> Self:
        if self.model.ngrams and self.start is not None and self.start.adapter is not None:
            raise ValueError(
                f"start.adapter {self.start.adapter}: an adapter holds only weights, and "
                f"model.ngrams {self.model.ngrams} needs counts of its own texts; set ngrams to 0, "
                "or train without --adapter"
            )
        return self

    def inner_model(self) -> Settings:
        return self.model.known_encoder

    def begun_with(self, other: TaskRecipe) -> Self:
        """As for every task; an encoder that is left out becomes the inner model of `other`."""
        begun = super().begun_with(other)
        if begun.model.encoder is not None:
            return begun
        encoder = other.inner_model().model_dump(mode="json")
        own = self.start is not None and self.start.vocabulary == "own"
        return begun.with_values({"model.encoder": without_vocabulary(encoder) if own else encoder})


class EncodedText(NamedTuple):
    """A text or a pair of texts as a model reads it: ids, with EOS after each text."""

    ids: list[int]  # without the token that texts begin with
    first: int  # how many of them belong to the first text of a pair, EOS included
    unknown: int  # tokens that the vocabulary lacks
    left_out: int  # tokens cut off at the ends of the texts, beyond what the model reads

    @property
    def is_pair(self) -> bool:
        """Whether there is a second text."""
        return self.first < len(self.ids)


class TextClassification(ClassificationTask[TextClassificationRecipe]):
    """Texts, labels and vocabulary are kept in the run."""

    nouns = "texts"
    tokenizer: Tokenizer

    def __init__(self, recipe: TextClassificationRecipe, folder: Path) -> None:
        super().__init__(recipe, folder)
        self._examples: dict[SplitName, list[LabelledText]] = {}
        self._encoded: dict[SplitName, list[EncodedText]] = {}

    # -- data -----------------------------------------------------------------------------------

    def prepare(self, note: Notify, *, resumed: bool) -> None:
        if not resumed:
            splits = self.read_into_run(note)
            texts = (text for one in splits["train"] for text in one.texts)
            self.make_tokenizer(texts, self.recipe.text).save(self.folder, JOINT)
        self.load()
        if self.recipe.model.ngrams and not resumed:
            save_weights(self._ngrams_file, self.count_ngrams()._asdict())
        for split in filter(self.has_split, SPLITS):
            if cut := sum(one.left_out > 0 for one in self.encoded(split)):
                limit = self.recipe.model.max_length
                longer = counted(cut, "text")
                note(f"{split}: the end is cut off {longer} of more than {limit} tokens")

    def read_corpus(self, corpus: LabelledTextSettings, report: ReadReport) -> Splits:
        return read_labelled_texts(corpus, report)

    def read_test(self, files: Sequence[str], folder: Path) -> None:
        super().read_test(files, folder)
        self._examples, self._encoded = {}, {}

    def check_labels(self, rows: Sequence[LabelledExample], hint: str = "") -> None:
        """As for every task; if the first label is unknown, it may be a header."""
        if rows[0].label not in self.labels:
            corpus = self.recipe.corpus
            columns = [corpus.label or 0, *((1,) if corpus.text is None else corpus.text)]
            hint = (
                "; if line 1 is a header, remove it, or write label,text in it: as in training, "
                f"label and text are read from the columns {', '.join(map(repr, columns))}"
            )
        super().check_labels(rows, hint)

    def load(self) -> None:
        super().load()
        self.tokenizer = load_tokenizer(self.folder, JOINT)

    def examples(self, split: SplitName) -> list[LabelledText]:
        """The texts of a split with their labels."""
        if split not in self._examples:
            rows = self.splits.read(split, "label", "texts")
            self._examples[split] = [LabelledText(label, tuple(texts)) for label, texts in rows]
        return self._examples[split]

    # -- tokens ---------------------------------------------------------------------------------

    def encode(self, texts: Sequence[tuple[str, ...]]) -> list[EncodedText]:
        """Texts, or pairs of texts, as the model reads them."""
        parts = iter(self.tokenizer.encode([text for some in texts for text in some]))
        return [self._join([next(parts) for _ in some]) for some in texts]

    def _join(self, parts: Sequence[list[int]]) -> EncodedText:
        ends = [self.tokenizer.separators] * (len(parts) - 1) + [1]
        room, lengths = self.recipe.model.max_length - 1 - sum(ends), [len(part) for part in parts]
        kept = fitting_lengths(lengths, room)
        cut = [
            [*part[:count], *[EOS] * end]
            for part, count, end in zip(parts, kept, ends, strict=True)
        ]
        ids = [token for part in cut for token in part]
        return EncodedText(ids, len(cut[0]), ids.count(UNK), sum(lengths) - sum(kept))

    @property
    def text_counts(self) -> tuple[int, ...]:
        """How many texts an example may have."""
        return self.recipe.corpus.text_counts

    def to_inputs(self, encoded: Sequence[EncodedText]) -> Padded:
        """The model's input; for a batch of pairs, with the segment of each token."""
        padded = pad([one.ids for one in encoded], first=self.recipe.model.text_start)
        if not any(one.is_pair for one in encoded) or not self.tokenizer.pair_segments:
            return padded
        ends = torch.tensor([1 + one.first for one in encoded])  # after the first text
        places = torch.arange(padded.ids.shape[1])
        return replace(padded, segments=((places >= ends[:, None]) & padded.mask).long())

    def encoded(self, split: SplitName) -> list[EncodedText]:
        """All examples of a split."""
        if split not in self._encoded:
            self._encoded[split] = self.encode([one.texts for one in self.examples(split)])
        return self._encoded[split]

    def inputs_of(self, split: SplitName) -> InputsOf:
        return self.rows_of(self.encoded(split))

    def rows_of(self, encoded: Sequence[EncodedText]) -> InputsOf:
        """Rows of some texts -> the model's input."""
        return lambda rows: self.to_inputs([encoded[row] for row in rows.tolist()])

    def lengths(self, split: SplitName) -> NDArray[np.intp]:
        return np.array([len(one.ids) for one in self.encoded(split)])

    def buckets(self) -> Buckets[Any]:
        return RowBuckets(self.recipe.model.max_length)

    def loss(self) -> LossFn:
        training = self.recipe.training
        smoothing, consistency = training.label_smoothing, training.consistency
        return partial(batch_loss, smoothing=smoothing, consistency=consistency)

    # -- model ----------------------------------------------------------------------------------

    def new_model(self) -> AnyPredictor:
        counts = self._load_counts() if self.recipe.model.ngrams else None
        return TextClassifier(self.recipe.model, self.tokenizer.words(), len(self.labels), counts)

    @property
    def _ngrams_file(self) -> Path:
        return self.folder / "data" / NGRAMS_FILE

    def _load_counts(self) -> NgramCounts:
        file, advice = self._ngrams_file, "restore it from a copy"
        if not file.exists():
            raise RunError(f"{file}: gone; {advice}")
        try:
            return NgramCounts.read(load_weights(file), len(self.labels))
        except ValueError as error:
            raise RunError(f"{file}: {error}; {advice}") from None

    def count_ngrams(self) -> NgramCounts:
        """The n-grams of the training texts, with the scale that makes their labels likeliest, each
        predicted from the counts of all other texts.
        """
        longest, vocabulary = self.recipe.model.ngrams, self.tokenizer.size
        encoded, labels = self.encoded("train"), self.label_ids("train")
        texts = [
            (self.to_inputs([encoded[row] for row in rows]), torch.from_numpy(labels[rows]))
            for rows in shortest_first(self.lengths("train"), EVALUATION_ROWS)
        ]
        known = count_ngrams(texts, longest, vocabulary, len(self.labels))
        bayes = NaiveBayes(known, longest, vocabulary)
        logits = torch.cat([bayes(inputs, some) for inputs, some in texts])
        found = Classified(logits.numpy(), torch.cat([some for _, some in texts]).numpy())
        return known._replace(scale=torch.tensor(1 / fit_temperature(found)))

    def initialize(self, model: AnyPredictor, taken: Collection[str] = ()) -> None:
        assert isinstance(model, TextClassifier)
        if "pooled_mean" in taken:  # the layers above, and low-rank updates, are for these
            return
        device, texts = next(model.parameters()).device, self.encoded("train")[:STANDARDIZED_TEXTS]
        rows = shortest_first(self.lengths("train")[: len(texts)], EVALUATION_ROWS)
        batches = (self.to_inputs([texts[row] for row in some]).to(device) for some in rows)
        model.eval().fit_standardization(batches)

    def ngram_votes(
        self, model: AnyPredictor, encoded: EncodedText
    ) -> Mapping[tuple[int, ...], Tensor]:
        """What each n-gram of a text, as a tuple of tokens, adds to the logits (C,); empty if the
        model counts no n-grams.
        """
        assert isinstance(model, TextClassifier)
        return model.ngram_votes(self.to_inputs([encoded]).to(next(model.parameters()).device))

    def row_names(self) -> RowNames:
        names: RowNames = {**super().row_names(), "tokens": self.tokenizer.row_names()}
        if not self.recipe.model.ngrams:
            return names
        known = self._load_counts()
        digests = [sha256(tensor.numpy().tobytes()) for tensor in (known.ngrams, known.counts)]
        rows = [(label, self.labels) for label in self.labels]  # whose columns are labels too
        return {**names, LABELS_WITH_NGRAMS: rows, "n-grams": digests}

    def summary(self) -> dict[str, str]:
        tokens = [id for one in self.encoded("valid") for id in one.ids]
        unknown = tokens.count(UNK) / max(1, len(tokens))
        vocabulary = f"{self.tokenizer.size:,} tokens; unknown in valid: {unknown:.1%}"
        return {**super().summary(), "vocabulary": vocabulary}

    def check_member(self, other: AnyClassificationTask) -> None:
        """As for every task; both must also read as many texts per example."""
        super().check_member(other)
        assert isinstance(other, TextClassification)
        if not {*self.text_counts} & {*other.text_counts}:
            pairs, single = (self, other) if 2 in self.text_counts else (other, self)
            raise SettingsError(
                f"--ensemble: {pairs.folder} reads pairs of texts, and {single.folder} single ones"
            )

    def check_same_examples(
        self, other: Self, split: SplitName, *, option: str = "--against"
    ) -> None:
        same_labels = {*self.labels} == {*other.labels}
        if not same_labels or self.examples(split) != other.examples(split):
            raise SettingsError(f"{option}: {other.folder} has other {split} texts or labels")


def fitting_lengths(lengths: Sequence[int], room: int) -> list[int]:
    """The number of tokens to keep of a text, or of each text of a pair, to fit into `room`; the
    longer text of a pair is cut first.
    """
    if len(lengths) == 1:
        return [min(lengths[0], room)]
    first, second = lengths
    shorter = min(first, second, room // 2)
    longer = min(max(first, second), room - shorter)
    return [longer, shorter] if first > second else [shorter, longer]
