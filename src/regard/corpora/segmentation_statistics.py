"""Training pairs -> whether to split lines into sentences, and what is not translated."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from regard.corpora.corpus import Pair
from regard.text.segmentation import (
    KINDS,
    InputSettings,
    Kind,
    ends_sentence,
    list_marker,
    pass_through_kinds,
    split_sentences,
)

MIN_PAIRS = 3  # needed to show that a kind of text is translated; fewer may be mistakes
RARE_ONE_IN = 2000  # what at most one pair in this many shows is rare
MIN_AGREEMENT = 0.7  # of pairs of several sentences: the share with as many on both sides
MAJORITY_SHARE = 0.5  # of pairs, above which a model has learned to expect something


@dataclass
class SegmentationStatistics:
    """Counts over training pairs: of sentences, and of text that is not a sentence."""

    pairs: int = 0
    ends_as_sentence: int = 0  # sources that end as sentences do
    multi_sentence: int = 0  # sources of several sentences
    same_sentence_count: int = 0  # those of them whose target has as many
    changed: Counter[Kind] = field(default_factory=Counter)
    """Pairs whose source is only text of a kind or has a list marker, which the target changes."""
    kept: Counter[Kind] = field(default_factory=Counter)
    """Such pairs whose target repeats it."""

    def add(self, pair: Pair) -> None:
        source, target = pair.source.strip(), pair.target.strip()
        self.pairs += 1
        self.ends_as_sentence += ends_sentence(source)
        sentences = len(split_sentences(source))
        if sentences > 1:
            self.multi_sentence += 1
            self.same_sentence_count += sentences == len(split_sentences(target))
        counts = self.kept if source == target else self.changed
        counts.update(pass_through_kinds(source) or ())
        if mark := list_marker(source):
            counts = self.kept if target.startswith(mark.rstrip()) else self.changed
            counts.update(("layout",))

    def __str__(self) -> str:
        """The reasons for the settings, in one sentence without its full stop."""
        count = max(1, self.pairs)
        ends, several = self.ends_as_sentence / count, self.multi_sentence / count
        shares = f"{ends:.0%} end as a sentence does and {several:.0%} hold several"
        translated = [f"{kind} are translated" for kind in KINDS if self.translates(kind)]
        return "; ".join([f"of the training sources {shares}", *translated])

    def settings(self) -> InputSettings:
        """The settings that follow from the pairs."""
        split = self.splits()
        # lines that are not sentences are not list items either
        possible = (kind for kind in KINDS if split or kind != "layout")
        kept = tuple(kind for kind in possible if not self.translates(kind))
        return InputSettings(split_sentences=split, pass_through=kept)

    def splits(self) -> bool:
        """Whether lines are to be split: if most sources end as sentences; or, where sources of
        several sentences are not rare, if they are the minority and most targets have as many.
        """
        if self.multi_sentence > max(MIN_PAIRS, self.pairs / RARE_ONE_IN):
            agree = self.same_sentence_count >= MIN_AGREEMENT * self.multi_sentence
            return agree and self.multi_sentence < MAJORITY_SHARE * self.pairs
        return self.ends_as_sentence >= MAJORITY_SHARE * self.pairs

    def translates(self, kind: Kind) -> bool:
        """Whether text of a kind is translated."""
        changed = self.changed[kind]
        return changed > max(MIN_PAIRS, self.pairs / RARE_ONE_IN) - 1 and changed > self.kept[kind]


def measure_segmentation(pairs: Iterable[Pair]) -> SegmentationStatistics:
    """The statistics of some training pairs."""
    found = SegmentationStatistics()
    for pair in pairs:
        found.add(pair)
    return found
