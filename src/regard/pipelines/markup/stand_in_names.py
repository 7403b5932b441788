"""Names that stand for what is held, while a model translates the sentence around it.

A name is what models copy, and fits where a noun would. Where a person makes no sense, and the name
is not copied, a place may.
"""

from collections.abc import Iterable, Sequence
from itertools import zip_longest

from regard.text.special_tokens import UNK
from regard.text.tokenizer import Tokenizer

PERSONS = ("Anna", "Paul", "Marie", "Thomas", "Jane", "David", "Maria", "Marc", "Julia", "Daniel")
PLACES = (
    "Paris",
    "Berlin",
    "Madrid",
    "Canada",
    "Milan",
    "Tokyo",
    "Lima",
    "Oslo",
    "Dublin",
    "Chicago",
)
"""Written alike in many languages."""


def spellable_names(tokenizers: Iterable[Tokenizer]) -> list[list[str]]:
    """Persons and places that both vocabularies can spell."""
    both = tuple(tokenizers)
    return [
        [name for name in names if all(UNK not in one.encode([name])[0] for one in both)]
        for names in (PERSONS, PLACES)
    ]


def assign_names(
    protected: Iterable[str], names: Sequence[Sequence[str]], text: str
) -> dict[str, list[str]]:
    """For each of the `holds` the names to try, one after the other, none of them in `text`.

    No two of them get the same; some get none where there are many.
    """
    free = [[name for name in kind if name not in text] for kind in names]
    choices = ([name for name in row if name] for row in zip_longest(*free))
    return dict(zip(dict.fromkeys(protected), choices, strict=False))
