"""Words that stand for what is held, while a model translates the sentence around it."""

from collections.abc import Iterable, Sequence

from regard.text.build import Tokenizers
from regard.text.special import UNK

STAND_INS = (
    "Anna", "Paul", "Marie", "Thomas", "David", "Maria", "Peter", "Sara",
    "Jane", "Marc", "Claire", "Sophie", "Daniel", "Laura", "Martin", "Julia",
)  # fmt: skip
"""Names that are written alike in many languages."""


def known_stand_ins(tokenizers: Tokenizers) -> list[str]:
    """Those that both vocabularies can spell."""
    return [
        name
        for name, *ids in zip(
            STAND_INS, *(one.encode(STAND_INS) for one in tokenizers), strict=True
        )
        if all(UNK not in side for side in ids)
    ]


def assign(holds: Iterable[str], names: Sequence[str], text: str) -> dict[str, str]:
    """A name for each of the `holds`, as far as there are names that the `text` lacks."""
    free = (name for name in names if name not in text)
    return dict(zip(dict.fromkeys(holds), free, strict=False))
