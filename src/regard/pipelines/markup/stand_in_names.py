"""Names in the place of protected text while a model translates the sentence around it.

Models copy names, and a name fits where a noun would. If the name of a person is not copied, that
of a place is tried.
"""

from collections.abc import Iterable, Sequence
from itertools import zip_longest

from regard.text.special_tokens import UNK
from regard.text.tokenizer import Tokenizer

PERSONS = ("Anna", "Paul", "Marie", "Thomas", "Jane", "David", "Maria", "Marc", "Julia", "Daniel")
PLACES = tuple(
    ["Paris", "Berlin", "Madrid", "Canada", "Milan", "Tokyo", "Lima", "Oslo", "Dublin", "Chicago"]
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
    """The names to try for each protected text, all different and none of them in `text`.

    Some protected texts get none if there are too many.
    """
    free = [[name for name in kind if name not in text] for kind in names]
    choices = ([name for name in row if name] for row in zip_longest(*free))
    return dict(zip(dict.fromkeys(protected), choices, strict=False))
