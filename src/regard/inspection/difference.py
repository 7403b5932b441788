"""Which words of a translation differ from those of another."""

from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import NamedTuple


class Stretch(NamedTuple):
    """Where two texts agree, both hold the same words; where they differ, each its own or none."""

    before: tuple[str, ...]
    after: tuple[str, ...]

    @property
    def same(self) -> bool:
        return self.before == self.after


def compare_words(before: Sequence[str], after: Sequence[str]) -> list[Stretch]:
    """The words of both texts, in order, in stretches that agree and stretches that differ."""
    blocks = SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    return [Stretch(tuple(before[a:b]), tuple(after[c:d])) for _, a, b, c, d in blocks]
