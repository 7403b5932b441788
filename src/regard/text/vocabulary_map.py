"""A map between the ids of an imported vocabulary and ours, which begin with four special ids."""

from collections.abc import Iterable
from functools import cached_property
from typing import Self

from pydantic import Field, model_validator

from regard.settings import Settings
from regard.text.special_tokens import BOS, SPECIAL_PIECES

MIN_ROWS, MAX_ROWS = len(SPECIAL_PIECES) + 1, 1 << 24  # of the vocabulary of an imported model


class VocabularyMap(Settings):
    """How our ids map to those of another toolkit's vocabulary ("theirs").

    Ours begin with PAD, UNK, BOS and EOS; all other tokens follow in the order of their ids there.
    A special token that their vocabulary lacks is added to ours but never generated: it is
    `absent`.
    """

    special: tuple[int | None, int | None, int | None, int | None]
    """Their ids of our PAD, UNK, BOS and EOS; None: they have no such token."""
    rows: int = Field(ge=1, le=MAX_ROWS)
    """Their ids run from 0 to `rows` - 1."""
    start: int | None = None
    """Their id of the token that a decoder begins with, if it is not BOS: for example Marian's
    padding. None: BOS."""

    @model_validator(mode="after")
    def _check_special(self) -> Self:
        there = [i for i in self.special if i is not None]
        if len({*there}) < len(there) or not all(0 <= i < self.rows for i in there):
            raise ValueError(
                f"special tokens must be different ids below {self.rows}, got {self.special}"
            )
        return self

    @property
    def size(self) -> int:
        """The number of our ids."""
        return len(self.theirs)

    @property
    def absent(self) -> tuple[int, ...]:
        """Our ids that stand for no token of theirs."""
        return tuple(i for i, there in enumerate(self.special) if there is None)

    @property
    def our_start(self) -> int:
        """Our id of the token whose vector a decoder begins with."""
        return BOS if self.start is None else self.ours[self.start]

    @cached_property
    def theirs(self) -> tuple[int | None, ...]:
        """Their id for each of ours."""
        special = {*self.special}
        return (*self.special, *(i for i in range(self.rows) if i not in special))

    @cached_property
    def ours(self) -> tuple[int, ...]:
        """Our id for each of theirs."""
        found = {there: i for i, there in enumerate(self.theirs) if there is not None}
        return tuple(found[i] for i in range(self.rows))

    def with_rows(self, count: int) -> "VocabularyMap":
        """The map of a vocabulary with `count` further tokens after all others."""
        return VocabularyMap(special=self.special, rows=self.rows + count, start=self.start)

    def to_ours(self, ids: Iterable[int]) -> list[int]:
        """Our ids for some of theirs."""
        ours = self.ours
        return [ours[i] for i in ids]

    def to_theirs(self, ids: Iterable[int]) -> list[int]:
        """Their ids for some of ours; a `ValueError` for an id that they lack."""
        found = [self.theirs[i] for i in ids]
        if None in found:
            lacking = [SPECIAL_PIECES[i] for i in self.absent]
            raise ValueError(f"the imported vocabulary has no {', '.join(lacking)}")
        return [i for i in found if i is not None]
