"""Partial translations while a search runs."""

from collections.abc import Callable, Collection, Sequence

from regard.decoding.tracing.observer import SearchObserver, SearchStep, best_so_far
from regard.text.preprocess import part_index
from regard.text.tokenizer import Tokenizer
from regard.types import Hypothesis

OnPartial = Callable[[int, str], bool]  # (line number, partial translation) -> False to cancel


class PartialTranslations(SearchObserver):
    """Calls back with the best partial translation of each line whenever it changes."""

    def __init__(self, target: Tokenizer, on_partial: OnPartial) -> None:
        self._target, self._on_partial = target, on_partial
        self._parts: dict[int, dict[int, str]] = {}  # the text of each part of each line
        self._cancelled: set[int] = set()  # lines whose callback returned False

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
