"""Training pairs -> whether lines hold sentences to split, and what of them is not translated."""

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

MIN_PAIRS = 3  # that show that a kind of text is translated; fewer may be mistakes
RARE_ONE_IN = 2000  # what no more than one pair in so many shows is rare
MIN_AGREEMENT = 0.7  # of pairs of several sentences, those with as many on both sides
MAJORITY_SHARE = 0.5  # of pairs, from which a model has learned to expect something


@dataclass
class SegmentationStatistics:
    """What some training pairs show of sentences, and of text that is none."""

    pairs: int = 0
    ends_as_sentence: int = 0  # sources that end as sentences do
    multi_sentence: int = 0  # sources of several sentences
    same_sentence_count: int = 0  # those of them whose target has as many
    changed: Counter[Kind] = field(default_factory=Counter)
    """Pairs whose source has text of a kind alone, or a list marker, that their target changes."""
    kept: Counter[Kind] = field(default_factory=Counter)
    """Those that their target repeats."""

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
        """Why these settings, in one plain sentence without its full stop."""
        count = max(1, self.pairs)
        ends, several = self.ends_as_sentence / count, self.multi_sentence / count
        shares = f"{ends:.0%} end as a sentence does and {several:.0%} hold several"
        translated = [f"{kind} are translated" for kind in KINDS if self.translates(kind)]
        return "; ".join([f"of the training sources {shares}", *translated])

    def settings(self) -> InputSettings:
        """What follows from the pairs."""
        split = self.splits()
        # lines that are no sentences are no items of lists either
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
    """What some training pairs show."""
    found = SegmentationStatistics()
    for pair in pairs:
        found.add(pair)
    return found
