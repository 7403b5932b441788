"""Metrics as sums over lines: the statistics of each line are counted once, so that scores of many
selections of lines (bootstrap, comparisons, by length) are fast.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics.base import Metric as SacreMetric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER
from sacrebleu.tokenizers.tokenizer_spm import SPM_MODELS
from sacrebleu.utils import SACREBLEU_DIR

from regard.errors import CorpusError, SettingsError
from regard.evaluation.bleu_tokenizer import PACKAGES, BleuTokenizer
from regard.evaluation.cider import cider_scores
from regard.text.caption_words import caption_words
from regard.text.preprocess import require_texts

SPACED_TOKENIZERS: tuple[BleuTokenizer, ...] = ("13a", "none", "intl")
"""Tokenizers for text whose words have spaces between them."""
MAX_NGRAM = 4
Counts = NDArray[np.float64]
Reference = str | tuple[str, ...]  # of a line: one text, or several that are all right
LineScore = Callable[[str, str], float]  # a hypothesis and its reference -> a number from 0 to 1
LineScores = Callable[[Sequence[str], Sequence[tuple[str, ...]]], Iterable[float]]
"""Hypotheses and the references of each -> a number for each."""


@dataclass(frozen=True)
class MetricOptions:
    """What a metric is built with."""

    tokenize: BleuTokenizer = "13a"  # how BLEU, GLEU and TER split lines into words
    lowercase: bool = False
    warn: bool = True  # whether BLEU warns of lines that look tokenized


class SummedMetric(ABC):
    """A number from 0 to 100 (TER and CIDEr may exceed it) that depends on N examples only through
    the sum of their statistics.
    """

    name: str
    lower_is_better = False

    @abstractmethod
    def value(self, total: Counts) -> float:
        """The score of examples whose statistics sum to `total` (C,)."""

    @abstractmethod
    def signature(self, resamples: int, seed: int) -> str:
        """How to reproduce the number; with 0 resamples it has no confidence interval."""


class Metric(SummedMetric):
    """A `SummedMetric` of lines and their references."""

    @abstractmethod
    def count(self, hypotheses: Sequence[str], references: Sequence[Reference]) -> Counts:
        """The statistics of each of N lines: (N, C)."""


class SacreBleuMetric(Metric):
    """One of sacrebleu's metrics; with `pretokenize`, lines are first split into words by it.

    The statistics of lines come from the two private methods that its own significance test uses.
    """

    def __init__(
        self, name: str, metric: SacreMetric, pretokenize: BleuTokenizer | None = None
    ) -> None:
        self.name, self._metric, self._pretokenize = name, metric, pretokenize
        metric.num_refs = 1  # for the signature, which sacrebleu has only after the first count
        self._words = word_tokenizer(MetricOptions(pretokenize)) if pretokenize else None

    def count(self, hypotheses: Sequence[str], references: Sequence[Reference]) -> Counts:
        check_lines(hypotheses=hypotheses, references=references)
        texts = reference_texts(references)
        if self._words is not None:
            cut = self._words
            hypotheses = [" ".join(cut(line)) for line in hypotheses]
            texts = [tuple(" ".join(cut(text)) for text in some) for some in texts]
        streams = list(zip_longest(*texts))  # the first reference of each line, the second, ...
        counts = self._metric._extract_corpus_statistics(hypotheses, streams)
        return np.array(counts, dtype=np.float64)

    def value(self, total: Counts) -> float:
        return float(self._metric._compute_score_from_stats(total.tolist()).score)

    def signature(self, resamples: int, seed: int) -> str:
        signature = self._metric.get_signature()
        if resamples:
            signature.update("bs", resamples)
            signature.update("seed", seed)
        own = f"tok:{self._pretokenize}-" if self._pretokenize else "tok:"
        return str(signature).replace("tok:", own)


class LineMean(Metric):
    """100 times the mean of a number for each line, mostly from 0 to 1."""

    def __init__(self, name: str, score_lines: LineScores, lowercase: bool, details: str) -> None:
        self.name, self._score_lines, self._num_references = name, score_lines, "1"
        self._details = f"case:{'lc' if lowercase else 'mixed'}|{details}"

    def count(self, hypotheses: Sequence[str], references: Sequence[Reference]) -> Counts:
        check_lines(hypotheses=hypotheses, references=references)
        texts = reference_texts(references)
        numbers = {len(some) for some in texts}
        self._num_references = str(numbers.pop()) if len(numbers) == 1 else "var"
        values = np.fromiter(self._score_lines(hypotheses, texts), np.float64, len(texts))
        return np.stack([values, np.ones(len(values))], axis=1)  # (N, 2)

    def value(self, total: Counts) -> float:
        return 100 * float(total[0] / total[1])

    def signature(self, resamples: int, seed: int) -> str:
        resampling = f"bs:{resamples}|seed:{seed}|" if resamples else ""
        return f"nrefs:{self._num_references}|{resampling}{self._details}"


def best_reference(score_line: LineScore) -> LineScores:
    """Scores each line against the one of its references that agrees most."""
    return lambda hypotheses, references: (
        max(score_line(hypothesis, text) for text in texts)
        for hypothesis, texts in zip(hypotheses, references, strict=True)
    )


def exact_match(options: MetricOptions) -> Metric:
    """The percentage of lines equal to their reference, or to one of them, up to white space."""
    fold = str.lower if options.lowercase else str

    def score_line(hypothesis: str, reference: str) -> float:
        return float(fold(hypothesis).split() == fold(reference).split())

    return LineMean("exact", best_reference(score_line), options.lowercase, "space:collapsed")


def mean_gleu(options: MetricOptions) -> Metric:
    """The unweighted mean of the GLEU of sentences (Wu et al. 2016)."""
    details = f"tok:{options.tokenize}|ngrams:1-4|mean:sentences"
    return LineMean("GLEU", best_reference(line_gleu(options)), options.lowercase, details)


def cider_d(options: MetricOptions) -> Metric:
    """100 times CIDEr-D, as papers give it; see `cider.py`."""
    words = word_tokenizer(options)

    def score_lines(
        hypotheses: Sequence[str], references: Sequence[tuple[str, ...]]
    ) -> list[float]:
        cut = [[words(text) for text in texts] for texts in references]
        return cider_scores([words(line) for line in hypotheses], cut)

    details = f"tok:{options.tokenize}|ngrams:1-4|sigma:6|idf:references"
    return LineMean("CIDEr-D", score_lines, options.lowercase, details)


def bleu_up_to(order: int, options: MetricOptions) -> Metric:
    """BLEU of n-grams up to an order, not smoothed: on `coco` words, that of COCO captions."""
    bleu = _bleu(options, max_ngram_order=order, smooth_method="none")
    return SacreBleuMetric(f"BLEU-{order}", bleu, _own_tokenizer(options))


def line_gleu(options: MetricOptions) -> LineScore:
    """GLEU of one line, from 0 to 1, on the words that BLEU counts."""
    words = word_tokenizer(options)
    return lambda hypothesis, reference: sentence_gleu(words(hypothesis), words(reference))


def sentence_gleu(hypothesis: Sequence[Hashable], reference: Sequence[Hashable]) -> float:
    """The smaller of precision and recall of 1- to 4-grams (Wu et al. 2016); 1 if none exist."""
    counts, expected = (
        Counter(
            words[first : first + length]
            for length in range(1, MAX_NGRAM + 1)
            for first in range(len(words) - length + 1)
        )
        for words in (tuple(hypothesis), tuple(reference))
    )
    num_ngrams = max(counts.total(), expected.total())
    return (counts & expected).total() / num_ngrams if num_ngrams else 1.0


@dataclass(frozen=True)
class MetricSpec:
    """An entry of `METRICS`."""

    build: Callable[[MetricOptions], Metric]
    digits: int = 2  # decimals in the progress of training
    lower_is_better: bool = False
    validates: bool = False  # whether validations compute it, and it may select the best weights
    reported: bool = False  # whether `regard evaluate` and the scores of a finished run include it


METRICS: dict[str, MetricSpec] = {
    "bleu": MetricSpec(
        lambda options: SacreBleuMetric("BLEU", _bleu(options), _own_tokenizer(options)),
        validates=True,
        reported=True,
    ),
    "chrf": MetricSpec(
        lambda options: SacreBleuMetric("chrF2", CHRF(lowercase=options.lowercase)),
        validates=True,
        reported=True,
    ),
    "chrf++": MetricSpec(
        lambda options: SacreBleuMetric("chrF2++", CHRF(word_order=2, lowercase=options.lowercase))
    ),
    "ter": MetricSpec(
        lambda options: SacreBleuMetric(
            "TER", TER(), None if options.tokenize in SPACED_TOKENIZERS else options.tokenize
        ),
        lower_is_better=True,
        reported=True,
    ),
    "gleu": MetricSpec(mean_gleu, validates=True),
    "exact": MetricSpec(exact_match, digits=1, validates=True, reported=True),
    **{
        f"bleu-{order}": MetricSpec(partial(bleu_up_to, order), digits=1)
        for order in range(1, MAX_NGRAM + 1)
    },
    "cider": MetricSpec(cider_d, digits=1),
}
"""Every metric by its name: settings, validation, progress and reports read this table."""
VALIDATION_METRICS = tuple(name for name, spec in METRICS.items() if spec.validates)
REPORTED_METRICS = tuple(name for name, spec in METRICS.items() if spec.reported)

if TYPE_CHECKING:
    MetricName = str
    SelectionCriterion = str
else:  # pydantic checks names and lists them in settings
    MetricName = Literal[tuple(METRICS)]
    SelectionCriterion = Literal[(*VALIDATION_METRICS, "loss")]


def build_metric(name: MetricName, options: MetricOptions) -> Metric:
    """The metric called `name`."""
    metric = METRICS[name].build(options)
    metric.lower_is_better = METRICS[name].lower_is_better
    return metric


def check_available(tokenize: BleuTokenizer) -> None:
    """Raise `SettingsError` if a tokenizer cannot be used on this machine."""
    _bleu(MetricOptions(tokenize, warn=False))


def check_lines(**lists: Sequence[object]) -> None:
    """Raise `CorpusError` unless the lists, named as users know them, have one length, not 0."""
    for name, lines in lists.items():
        if isinstance(lines, str):
            require_texts(name, lines)
    lengths = {name.replace("_", " "): len(lines) for name, lines in lists.items()}
    if len(set(lengths.values())) > 1:
        found = ", ".join(f"{length} {name}" for name, length in lengths.items())
        raise CorpusError(f"lines must pair up, found {found}; is one of the files truncated?")
    if 0 in lengths.values():
        raise CorpusError(f"there is nothing to measure: no {' and no '.join(lengths)}")


def reference_texts(references: Sequence[Reference]) -> list[tuple[str, ...]]:
    """The references of each line; a `CorpusError` if a line has none."""
    texts = [(one,) if isinstance(one, str) else one for one in references]
    if () in texts:
        raise CorpusError(f"line {texts.index(()) + 1} of {len(texts)} has no reference at all")
    return texts


def _own_tokenizer(options: MetricOptions) -> BleuTokenizer | None:
    """The tokenizer, if it is not one of sacreBLEU's."""
    return "coco" if options.tokenize == "coco" else None


def word_tokenizer(options: MetricOptions) -> Callable[[str], list[str]]:
    """A function that splits a line into the words that BLEU counts."""
    if options.tokenize == "coco":
        return caption_words
    tokenizer = _bleu(MetricOptions(options.tokenize, options.lowercase, warn=False)).tokenizer
    fold = str.lower if options.lowercase else str
    return lambda line: tokenizer(fold(line).rstrip()).split()


def _bleu(options: MetricOptions, **more: Any) -> BLEU:
    """sacreBLEU's BLEU, with `more` of its options."""
    tokenize = "none" if options.tokenize == "coco" else options.tokenize  # lines are split before
    if tokenize in SPM_MODELS:
        url = SPM_MODELS[tokenize]["url"]
        model = Path(SACREBLEU_DIR) / "models" / url.rpartition("/")[2]
        if not model.exists():
            raise SettingsError(
                f"tokenize: {tokenize!r} needs a model that is missing, and regard downloads "
                f"nothing: save {url} as {model}"
            )
    # `force` silences the warning that lines look tokenized, which is intended with "none".
    force = tokenize == "none" or not options.warn
    try:
        return BLEU(tokenize=tokenize, lowercase=options.lowercase, force=force, **more)
    except RuntimeError as error:  # raised by sacrebleu if MeCab is not installed
        language = tokenize.partition("-")[0]
        raise SettingsError(
            f"tokenize: {tokenize!r} needs the packages {' and '.join(PACKAGES[tokenize])}, which "
            f"are not installed: pip install 'regard[{language}]' brings them, and `char` does "
            "without"
        ) from error
