"""The labels of a corpus for classification, and which examples are held out."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from regard.corpora.corpus import SplitName
from regard.corpora.dedup import hash_texts
from regard.errors import CorpusError
from regard.settings import abbreviate, counted

MAX_NAMED = 5  # labels that a message names


class LabelledExample(Protocol):
    """A text or a picture with its label."""

    @property
    def label(self) -> str: ...


ExampleT = TypeVar("ExampleT", bound=LabelledExample)


def label_set(
    splits: Mapping[SplitName, Sequence[str]],
    files: Callable[[SplitName], str],
    note: Callable[[str], None],
) -> tuple[str, ...]:
    """The labels of the training examples, sorted; `files` names the files of a split.

    An error if there are fewer than two, or if a held-out example has a label that no training
    example has; a note on labels that are too rare to be learned or measured.
    """
    counts, corpus = Counter(splits["train"]), files("train")
    if len(counts) < 2:
        only = f"all {counts.total():,} have {_names(counts)}" if counts else "there is none"
        raise CorpusError(
            f"{corpus}: a classifier needs examples of two labels or more to train on; {only}"
        )
    for split, labels in splits.items():
        if unseen := sorted({*labels} - counts.keys()):
            raise CorpusError(
                f"{files(split)}: {split} has labels that no training example has: "
                f"{_names(unseen)}; there are {_names(sorted(counts))}: correct them, or add "
                "training examples"
            )
    once = sorted(label for label, count in counts.items() if count == 1)
    if once:
        note(f"{corpus}: only one training example has each of these labels: {_names(once)}")
    for split, labels in splits.items():
        if labels and (missing := sorted(counts.keys() - {*labels})):
            note(f"{files(split)}: no example of {split} has these labels: {_names(missing)}")
    return tuple(sorted(counts))


def with_held_out(
    splits: Mapping[SplitName, list[ExampleT]],
    shares: Mapping[SplitName, float],
    key: Callable[[ExampleT], str],
    *,
    corpus: str,
    advice: str,
) -> dict[SplitName, list[ExampleT]]:
    """The splits, and further ones for which `shares` of the training examples are held out.

    Examples with one `key` stay together. Errors name the `corpus` and end with the
    `advice`.
    """
    found, total = dict(splits), len(splits["train"])
    for seed, (split, share) in enumerate(shares.items(), 1):
        if not share:
            continue
        train = found["train"]
        labels, keys = [one.label for one in train], [key(one) for one in train]
        chosen = hold_out(labels, keys, round(share * total), seed)
        if not chosen.any():
            distinct = len({*keys})
            alike = f", only {distinct:,} of them distinct," if distinct < len(keys) else ""
            raise CorpusError(
                f"{corpus}: {counted(total, 'example')}{alike} with "
                f"{counted(len({*labels}), 'label')}: too few to hold out {share:.0%} for {split}: "
                f"{advice}"
            )
        found[split] = [one for one, taken in zip(train, chosen, strict=True) if taken]
        found["train"] = [one for one, taken in zip(train, chosen, strict=True) if not taken]
    return found


def hold_out(
    labels: Sequence[str], keys: Sequence[str], count: int, seed: int
) -> NDArray[np.bool_]:
    """Which of N examples are held out (N,): about `count`, the same share of each label.

    They are chosen by a hash of their `keys`, so that the order of the examples does not matter;
    those with the same key stay together. At least one example of each label remains.
    """
    hashes, label_array = hash_texts(keys, seed=seed), np.array(labels)
    chosen = np.zeros(len(labels), np.bool_)
    share = count / max(1, len(labels))
    for label in sorted({*labels}):
        of_label = label_array == label
        groups, sizes = np.unique(hashes[of_label], return_counts=True)  # in the order of hashes
        wanted = min(round(share * sizes.sum()), sizes.sum() - 1)
        taken = groups[: np.searchsorted(np.cumsum(sizes), wanted, side="right")]
        chosen |= np.isin(hashes, taken)
    for label in sorted({*labels}):  # a key with several labels may have taken the last of one
        rows = np.flatnonzero(label_array == label)
        if chosen[rows].all():
            chosen[hashes == hashes[rows[0]]] = False
    return chosen


def _names(labels: Sequence[str] | Counter[str]) -> str:
    """Some labels, formatted for a message."""
    listed = [abbreviate(repr(label)) for label in labels]
    more = f" and {len(listed) - MAX_NAMED:,} more" if len(listed) > MAX_NAMED else ""
    return ", ".join(listed[:MAX_NAMED]) + more
