"""Translations as they grow, told while they are searched for."""

from collections.abc import Callable, Collection, Sequence

from regard.decoding.tracing.observer import SearchObserver, SearchStep, best_so_far
from regard.text.preprocess import part_index
from regard.text.tokenizer import Tokenizer
from regard.types import Hypothesis

OnPartial = Callable[[int, str], bool]
"""Told the number of a line and its translation so far; whether anyone still waits for it."""


class PartialTranslations(SearchObserver):
    """Tells the best translation so far of each line, whenever it is another than before.

    A search may take back what it said. A line in several parts shows those that are begun. One
    that nobody waits for any more is given up.

    >>> told = Telling(translator.target, lambda line, text: print(text) is None)  # doctest: +SKIP
    >>> translator.observed(told).translate(["Jane visite l'Afrique."])  # doctest: +SKIP
    """

    def __init__(self, target: Tokenizer, on_partial: OnPartial) -> None:
        self._target, self._on_partial = target, on_partial
        self._parts: dict[int, dict[int, str]] = {}
        """The text of each part of each line."""
        self._cancelled: set[int] = set()
        """Lines that nobody waits for."""

    def on_step(self, step: SearchStep, /) -> Collection[int]:
        for number, tokens in zip(step.numbers, best_so_far(step), strict=True):
            self._update(number, tokens)
        return [number for number in step.numbers if part_index(number).line in self._cancelled]

    def on_result(self, number: int, answers: Sequence[Hypothesis], /) -> None:
        self._update(number, answers[0].tokens)

    def _update(self, number: int, tokens: Sequence[int]) -> None:
        line, part = part_index(number)
        parts, text = self._parts.setdefault(line, {}), self._target.decode(tokens)
        if line in self._cancelled or parts.get(part) == text:
            return
        parts[part] = text
        if not self._on_partial(line, " ".join(parts[one] for one in sorted(parts))):
            self._cancelled.add(line)
