"""What a search has found, on its way to who asked."""

from collections.abc import Sequence

from regard.decoding.gpu.async_copy import AsyncCopy, async_to_host
from regard.decoding.search.n_best import NBest
from regard.decoding.tracing.observer import SearchObserver
from regard.types import Hypothesis


class ResultReader:
    """The answers to the sentences of a batch, as they leave it.

    Where nobody looks on they are read when the next ones come: by then they have arrived, and the
    device has other work while the host reads.
    """

    def __init__(self, n_best: int, observe: SearchObserver | None, numbers: Sequence[int]) -> None:
        self._n_best, self._observe, self._numbers = n_best, observe, numbers
        self._found: dict[int, list[Hypothesis]] = {}
        self._pending: tuple[Sequence[int], AsyncCopy] | None = None

    def collect(self, rows: Sequence[int], best: NBest) -> None:
        """Those to the sentences `rows`, the first of `best` (B, N)."""
        self._read()
        self._pending = rows, async_to_host(*(x[:, : self._n_best] for x in best))
        if self._observe is not None:
            self._read()
            for row in rows:
                self._observe.on_result(self._numbers[row], self._found[row])

    def all(self) -> list[list[Hypothesis]]:
        """All of them, in the order of the sentences."""
        self._read()
        return [self._found[row] for row in range(len(self._found))]

    def _read(self) -> None:
        if self._pending is not None:
            rows, pending_copy = self._pending
            found = NBest(*pending_copy.wait()).to_lists(self._n_best)
            self._found.update(zip(rows, found, strict=True))
            self._pending = None
