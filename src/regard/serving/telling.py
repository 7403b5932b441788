"""Translations as they grow, told while they are searched for."""

from collections.abc import Callable, Collection, Sequence

from regard.decoding.observe import Observe, Step, best_so_far
from regard.nouns import Hypothesis
from regard.serving.lines import part_place
from regard.text.tokenizer import Tokenizer

Tell = Callable[[int, str], bool]
"""Told the number of a line and its translation so far; whether anyone still waits for it."""


class Telling(Observe):
    """Tells the best translation so far of each line, whenever it is another than before.

    A search may take back what it said. A line in several parts shows those that are begun. One
    that nobody waits for any more is given up.

    >>> told = Telling(translator.target, lambda line, text: print(text) is None)  # doctest: +SKIP
    >>> translator.observed(told).translate(["Jane visite l'Afrique."])  # doctest: +SKIP
    """

    def __init__(self, target: Tokenizer, tell: Tell) -> None:
        self._target, self._tell = target, tell
        self._parts: dict[int, dict[int, str]] = {}
        """The text of each part of each line."""
        self._left: set[int] = set()
        """Lines that nobody waits for."""

    def stepped(self, step: Step, /) -> Collection[int]:
        for number, tokens in zip(step.numbers, best_so_far(step), strict=True):
            self._note(number, tokens)
        return [number for number in step.numbers if part_place(number).line in self._left]

    def answered(self, number: int, answers: Sequence[Hypothesis], /) -> None:
        self._note(number, answers[0].tokens)

    def _note(self, number: int, tokens: Sequence[int]) -> None:
        line, part = part_place(number)
        parts, text = self._parts.setdefault(line, {}), self._target.decode(tokens)
        if line in self._left or parts.get(part) == text:
            return
        parts[part] = text
        if not self._tell(line, " ".join(parts[one] for one in sorted(parts))):
            self._left.add(line)
