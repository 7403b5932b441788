"""The header of a table of pairs, known by what people call the two sides."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from regard.corpora.languages import shortest_code

SOURCE_NAMES, TARGET_NAMES = ("source", "src"), ("target", "tgt", "trg")
"""What the columns are called where it is not by their languages."""
KNOWN_LANGUAGE_NAMES = ("english", "french", "german", "spanish")
"""Names of languages that are known where the corpus does not say its own."""


_NAME = re.compile(r"\s*[A-Za-z_-]{2,20}\s*")


class Header(NamedTuple):
    """A first row that holds names."""

    row: Sequence[str]
    places: tuple[int, int] | None
    """The columns of source and target; None where the names do not tell."""

    def remark(self, places: Sequence[int]) -> str:
        """What a person should know about it, given the columns that are read."""
        source, target = (self.row[place] if place < len(self.row) else "?" for place in places)
        return (
            f"line 1 is a header ({', '.join(self.row)}) and no pair: {source!r} is read as "
            f"source, {target!r} as target; corpus.train.columns sets others"
        )


def find_header(row: Sequence[str], languages: tuple[str, str]) -> Header | None:
    """The header that a first row is; None for a pair.

    Only rows are known with two or more names of sides or languages: nothing that may be a pair is
    taken for one.
    """
    if sum(bool(_NAME.fullmatch(cell)) for cell in row) < 2:
        return None
    names = [shortest_code(cell) for cell in row]
    source, target = (
        {*fixed, shortest_code(language)}
        for fixed, language in zip((SOURCE_NAMES, TARGET_NAMES), languages, strict=True)
    )
    known = {*source, *target, *map(shortest_code, KNOWN_LANGUAGE_NAMES)}
    if sum(name in known for name in names) < 2:
        return None
    places = [
        [place for place, name in enumerate(names) if name in side] for side in (source, target)
    ]
    if any(len(found) != 1 for found in places) or places[0] == places[1]:
        return Header(row, None)
    return Header(row, (places[0][0], places[1][0]))
