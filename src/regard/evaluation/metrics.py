"""Metrics as sums over lines, so that a score is cheap for any choice of lines.

Resampling, comparing and cutting by length all score one set of lines again and again: what a
metric must know of each line is counted once, and a score is computed from the sum of the counts.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics.base import Metric as SacreMetric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER
from sacrebleu.tokenizers.tokenizer_spm import SPM_MODELS
from sacrebleu.utils import SACREBLEU_DIR

from regard.errors import CorpusError, SettingsError, require_texts
from regard.evaluation.bleu_tokenizer import PACKAGES, BleuTokenizer
from regard.evaluation.gleu import sentence_gleu

MetricName = Literal["bleu", "chrf", "chrf++", "ter", "gleu", "exact"]
SPACED_TOKENIZERS: tuple[BleuTokenizer, ...] = ("13a", "none", "intl")
"""Tokenizers for text whose words have spaces between them."""
Counts = NDArray[np.float64]


class Metric(ABC):
    """A number from 0 to 100 (TER may exceed it) for lines and their references."""

    name: str
    lower_is_better = False

    @abstractmethod
    def count(self, hypotheses: Sequence[str], references: Sequence[str]) -> Counts:
        """What the metric must know of each of N lines: (N, C)."""

    @abstractmethod
    def value(self, total: Counts) -> float:
        """The score of lines whose counts sum to `total` (C,)."""

    @abstractmethod
    def signature(self, resamples: int, seed: int) -> str:
        """How the number was made, for others to make it again; 0 resamples: no interval."""


class SacreBleuMetric(Metric):
    """One of sacrebleu's metrics.

    Its public calls score a whole corpus; the counts come from the two methods that its own
    significance test is built on. A test holds the scores equal to those of the public calls.
    """

    def __init__(self, name: str, metric: SacreMetric, *, lower_is_better: bool = False) -> None:
        self.name, self.lower_is_better = name, lower_is_better
        metric.num_refs = 1  # its signature asks for it, and would know only after the first count
        self._metric = metric

    def count(self, hypotheses: Sequence[str], references: Sequence[str]) -> Counts:
        check_lines(hypotheses=hypotheses, references=references)
        counts = self._metric._extract_corpus_statistics(hypotheses, [references])
        return np.array(counts, dtype=np.float64)

    def value(self, total: Counts) -> float:
        return float(self._metric._compute_score_from_stats(total.tolist()).score)

    def signature(self, resamples: int, seed: int) -> str:
        signature = self._metric.get_signature()
        if resamples:
            signature.update("bs", resamples)
            signature.update("seed", seed)
        return str(signature)


class PretokenizedMetric(SacreBleuMetric):
    """One of sacrebleu's metrics on lines that were cut into words before; its signature says so.

    For TER, which takes what spaces part for words.
    """

    def __init__(
        self, name: str, metric: SacreMetric, tokenize: BleuTokenizer, *, lower_is_better: bool
    ) -> None:
        super().__init__(name, metric, lower_is_better=lower_is_better)
        self._tokenize = tokenize
        self._tokenize_line = _bleu(tokenize, lowercase=False, warn=False).tokenizer

    def count(self, hypotheses: Sequence[str], references: Sequence[str]) -> Counts:
        tokenized = (
            [self._tokenize_line(line.rstrip()) for line in lines]
            for lines in (hypotheses, references)
        )
        return super().count(*tokenized)

    def signature(self, resamples: int, seed: int) -> str:
        return super().signature(resamples, seed).replace("tok:", f"tok:{self._tokenize}-")


class LineMeanMetric(Metric):
    """The mean, in percent, of a number from 0 to 1 that each line has by itself."""

    @abstractmethod
    def line(self, hypothesis: str, reference: str) -> float:
        """The number of one line."""

    def count(self, hypotheses: Sequence[str], references: Sequence[str]) -> Counts:
        check_lines(hypotheses=hypotheses, references=references)
        values = [self.line(*pair) for pair in zip(hypotheses, references, strict=True)]
        return np.stack(
            [np.array(values, dtype=np.float64), np.ones(len(values))], axis=1
        )  # (N, 2)

    def value(self, total: Counts) -> float:
        return 100 * float(total[0] / total[1])


class ExactMatch(LineMeanMetric):
    """The percentage of lines equal to their reference.

    White space at the ends is ignored, and any run of it inside a line counts as one space.
    """

    def __init__(self, *, lowercase: bool = False) -> None:
        self.name, self._lowercase = "exact", lowercase

    def line(self, hypothesis: str, reference: str) -> float:
        return float(self._normalized_words(hypothesis) == self._normalized_words(reference))

    def signature(self, resamples: int, seed: int) -> str:
        resampling = f"bs:{resamples}|seed:{seed}|" if resamples else ""
        return f"nrefs:1|{resampling}case:{'lc' if self._lowercase else 'mixed'}|space:collapsed"

    def _normalized_words(self, line: str) -> list[str]:
        return (line.lower() if self._lowercase else line).split()


class MeanGleu(LineMeanMetric):
    """The mean of the sentences' GLEU (Wu et al. 2016), on the words that BLEU would see.

    Their score of a whole text weighs sentences by their n-grams; this mean, in which all weigh
    alike, is what refinement raises.
    """

    def __init__(self, tokenize: BleuTokenizer = "13a", *, lowercase: bool = False) -> None:
        self.name, self._tokenize, self._lowercase = "GLEU", tokenize, lowercase
        self._tokenize_line = _bleu(tokenize, lowercase=lowercase, warn=False).tokenizer

    def line(self, hypothesis: str, reference: str) -> float:
        return sentence_gleu(self._words(hypothesis), self._words(reference))

    def signature(self, resamples: int, seed: int) -> str:
        resampling = f"bs:{resamples}|seed:{seed}|" if resamples else ""
        case = "lc" if self._lowercase else "mixed"
        return f"nrefs:1|{resampling}case:{case}|tok:{self._tokenize}|ngrams:1-4|mean:sentences"

    def _words(self, line: str) -> list[str]:
        tokenized: str = self._tokenize_line((line.lower() if self._lowercase else line).rstrip())
        return tokenized.split()


def build_metric(
    name: MetricName, tokenize: BleuTokenizer, *, lowercase: bool, warn: bool = True
) -> Metric:
    """The metric called `name`; BLEU and GLEU cut their lines as `tokenize` says.

    So does TER where that is for text without spaces; it ignores case either way, as tercom does,
    and its signature says so.
    """
    match name:
        case "bleu":
            return SacreBleuMetric("BLEU", _bleu(tokenize, lowercase=lowercase, warn=warn))
        case "chrf":
            return SacreBleuMetric("chrF2", CHRF(lowercase=lowercase))
        case "chrf++":
            return SacreBleuMetric("chrF2++", CHRF(word_order=2, lowercase=lowercase))
        case "ter":
            if tokenize not in SPACED_TOKENIZERS:
                return PretokenizedMetric("TER", TER(), tokenize, lower_is_better=True)
            return SacreBleuMetric("TER", TER(), lower_is_better=True)
        case "gleu":
            return MeanGleu(tokenize, lowercase=lowercase)
        case "exact":
            return ExactMatch(lowercase=lowercase)


def check_available(tokenize: BleuTokenizer) -> None:
    """Raise `SettingsError` where a tokenizer cannot be used on this machine."""
    _bleu(tokenize, lowercase=False, warn=False)


def check_lines(**lists: Sequence[object]) -> None:
    """Raise `CorpusError` unless the lists, named as the user knows them, pair up line by line.

    One text, whose letters would pair up, is a `TypeError`.
    """
    for name, lines in lists.items():
        if isinstance(lines, str):
            require_texts(name, lines)
    lengths = {name.replace("_", " "): len(lines) for name, lines in lists.items()}
    if len(set(lengths.values())) > 1:
        found = ", ".join(f"{length} {name}" for name, length in lengths.items())
        raise CorpusError(f"lines must pair up, found {found}; is one of the files cut short?")
    if 0 in lengths.values():
        raise CorpusError(f"there is nothing to measure: no {' and no '.join(lengths)}")


def _bleu(tokenize: BleuTokenizer, *, lowercase: bool, warn: bool) -> BLEU:
    # `force` silences a warning that the text looks tokenized, which "none" says it is.
    force = tokenize == "none" or not warn
    if tokenize in SPM_MODELS:
        _check_downloaded(tokenize)
    try:
        return BLEU(tokenize=tokenize, lowercase=lowercase, force=force)
    except RuntimeError as error:  # what sacrebleu raises where MeCab is not installed
        language = tokenize.partition("-")[0]
        raise SettingsError(
            f"tokenize: {tokenize!r} needs the packages {' and '.join(PACKAGES[tokenize])}, which "
            f"are not installed: pip install 'regard[{language}]' brings them, and `char` does "
            "without"
        ) from error


def _check_downloaded(tokenize: BleuTokenizer) -> None:
    """An error where sacrebleu would have to fetch the model of a tokenizer from the network."""
    url = SPM_MODELS[tokenize]["url"]
    model = Path(SACREBLEU_DIR) / "models" / url.rpartition("/")[2]
    if not model.exists():
        raise SettingsError(
            f"tokenize: {tokenize!r} needs a model that is not here, and regard downloads nothing: "
            f"save {url} as {model}"
        )
