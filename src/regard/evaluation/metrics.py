"""Metrics as sums over lines: the statistics of each line are counted once, so that scores of many
selections of lines (bootstrap, comparisons, by length) are cheap.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

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
from regard.text.preprocess import require_texts

SPACED_TOKENIZERS: tuple[BleuTokenizer, ...] = ("13a", "none", "intl")
"""Tokenizers for text whose words have spaces between them."""
MAX_NGRAM = 4
Counts = NDArray[np.float64]
LineScore = Callable[[str, str], float]  # a hypothesis and its reference -> a number from 0 to 1


@dataclass(frozen=True)
class MetricOptions:
    """What a metric is built with."""

    tokenize: BleuTokenizer = "13a"  # how BLEU, GLEU and TER cut lines into words
    lowercase: bool = False
    warn: bool = True  # whether BLEU warns of lines that look tokenized


class Metric(ABC):
    """A number from 0 to 100 (TER may exceed it) for lines and their references."""

    name: str
    lower_is_better = False

    @abstractmethod
    def count(self, hypotheses: Sequence[str], references: Sequence[str]) -> Counts:
        """The statistics of each of N lines: (N, C)."""

    @abstractmethod
    def value(self, total: Counts) -> float:
        """The score of lines whose statistics sum to `total` (C,)."""

    @abstractmethod
    def signature(self, resamples: int, seed: int) -> str:
        """How to reproduce the number; with 0 resamples it has no confidence interval."""


class SacreBleuMetric(Metric):
    """One of sacrebleu's metrics; `pretokenize` cuts lines without spaces into words.

    The statistics of lines come from the two private methods that its own significance test uses.
    """

    def __init__(
        self, name: str, metric: SacreMetric, pretokenize: BleuTokenizer | None = None
    ) -> None:
        self.name, self._metric, self._pretokenize = name, metric, pretokenize
        metric.num_refs = 1  # for the signature, which sacrebleu has only after the first count
        self._words = _word_tokenizer(MetricOptions(pretokenize)) if pretokenize else None

    def count(self, hypotheses: Sequence[str], references: Sequence[str]) -> Counts:
        check_lines(hypotheses=hypotheses, references=references)
        if self._words is not None:
            hypotheses = [" ".join(self._words(line)) for line in hypotheses]
            references = [" ".join(self._words(line)) for line in references]
        counts = self._metric._extract_corpus_statistics(hypotheses, [references])
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
    """The mean, in percent, of a number from 0 to 1 for each line."""

    def __init__(self, name: str, score_line: LineScore, lowercase: bool, details: str) -> None:
        self.name, self._score_line = name, score_line
        self._details = f"case:{'lc' if lowercase else 'mixed'}|{details}"

    def count(self, hypotheses: Sequence[str], references: Sequence[str]) -> Counts:
        check_lines(hypotheses=hypotheses, references=references)
        values = list(map(self._score_line, hypotheses, references))
        return np.stack([np.array(values), np.ones(len(values))], axis=1)  # (N, 2)

    def value(self, total: Counts) -> float:
        return 100 * float(total[0] / total[1])

    def signature(self, resamples: int, seed: int) -> str:
        resampling = f"bs:{resamples}|seed:{seed}|" if resamples else ""
        return f"nrefs:1|{resampling}{self._details}"


def exact_match(options: MetricOptions) -> Metric:
    """The percentage of lines equal to their reference, up to white space."""
    fold = str.lower if options.lowercase else str
    return LineMean(
        "exact",
        lambda hypothesis, reference: float(fold(hypothesis).split() == fold(reference).split()),
        options.lowercase,
        "space:collapsed",
    )


def mean_gleu(options: MetricOptions) -> Metric:
    """The mean of the GLEU of sentences (Wu et al. 2016), all of one weight."""
    details = f"tok:{options.tokenize}|ngrams:1-4|mean:sentences"
    return LineMean("GLEU", line_gleu(options), options.lowercase, details)


def line_gleu(options: MetricOptions) -> LineScore:
    """GLEU of one line, from 0 to 1, on the words that BLEU counts."""
    words = _word_tokenizer(options)
    return lambda hypothesis, reference: sentence_gleu(words(hypothesis), words(reference))


def sentence_gleu(hypothesis: Sequence[Hashable], reference: Sequence[Hashable]) -> float:
    """The smaller of precision and recall of 1- to 4-grams (Wu et al. 2016); of none, 1."""
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
    """An entry of `METRICS`: all that is to be known of a metric."""

    build: Callable[[MetricOptions], Metric]
    digits: int = 2  # decimals in the progress of training
    lower_is_better: bool = False
    validates: bool = False  # whether validations compute it, and it may select the best weights
    reported: bool = False  # whether `regard evaluate` and the scores of a finished run have it


METRICS: dict[str, MetricSpec] = {
    "bleu": MetricSpec(
        lambda options: SacreBleuMetric("BLEU", _bleu(options)), validates=True, reported=True
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
    """Raise `CorpusError` unless the lists, named as users know them, are of one length."""
    for name, lines in lists.items():
        if isinstance(lines, str):
            require_texts(name, lines)
    lengths = {name.replace("_", " "): len(lines) for name, lines in lists.items()}
    if len(set(lengths.values())) > 1:
        found = ", ".join(f"{length} {name}" for name, length in lengths.items())
        raise CorpusError(f"lines must pair up, found {found}; is one of the files cut short?")
    if 0 in lengths.values():
        raise CorpusError(f"there is nothing to measure: no {' and no '.join(lengths)}")


def _word_tokenizer(options: MetricOptions) -> Callable[[str], list[str]]:
    """Cuts a line into the words that BLEU counts."""
    tokenizer = _bleu(MetricOptions(options.tokenize, options.lowercase, warn=False)).tokenizer
    fold = str.lower if options.lowercase else str
    return lambda line: tokenizer(fold(line).rstrip()).split()


def _bleu(options: MetricOptions) -> BLEU:
    tokenize = options.tokenize
    if tokenize in SPM_MODELS:
        url = SPM_MODELS[tokenize]["url"]
        model = Path(SACREBLEU_DIR) / "models" / url.rpartition("/")[2]
        if not model.exists():
            raise SettingsError(
                f"tokenize: {tokenize!r} needs a model that is not here, and regard downloads "
                f"nothing: save {url} as {model}"
            )
    # `force` silences the warning that lines look tokenized, which is intended with "none".
    force = tokenize == "none" or not options.warn
    try:
        return BLEU(tokenize=tokenize, lowercase=options.lowercase, force=force)
    except RuntimeError as error:  # raised by sacrebleu if MeCab is not installed
        language = tokenize.partition("-")[0]
        raise SettingsError(
            f"tokenize: {tokenize!r} needs the packages {' and '.join(PACKAGES[tokenize])}, which "
            f"are not installed: pip install 'regard[{language}]' brings them, and `char` does "
            "without"
        ) from error
