"""What a search has found, on its way to who asked."""

from collections.abc import Sequence

from regard.decoding.finished import Finished
from regard.decoding.observe import Observe
from regard.decoding.posting import Letter, post
from regard.nouns import Hypothesis


class Answers:
    """The answers to the sentences of a batch, as they leave it.

    Where nobody looks on they are read when the next ones come: by then they have arrived, and the
    device has other work while the host reads.
    """

    def __init__(self, n_best: int, observe: Observe | None, numbers: Sequence[int]) -> None:
        self._n_best, self._observe, self._numbers = n_best, observe, numbers
        self._found: dict[int, list[Hypothesis]] = {}
        self._posted: tuple[Sequence[int], Letter] | None = None

    def take(self, rows: Sequence[int], best: Finished) -> None:
        """Those to the sentences `rows`, the first of `best` (B, N)."""
        self._read()
        self._posted = rows, post(*(x[:, : self._n_best] for x in best))
        if self._observe is not None:
            self._read()
            for row in rows:
                self._observe.answered(self._numbers[row], self._found[row])

    def all(self) -> list[list[Hypothesis]]:
        """All of them, in the order of the sentences."""
        self._read()
        return [self._found[row] for row in range(len(self._found))]

    def _read(self) -> None:
        if self._posted is not None:
            rows, letter = self._posted
            found = Finished(*letter.open()).hypotheses(self._n_best)
            self._found.update(zip(rows, found, strict=True))
            self._posted = None
