"""How long a model takes, as recent batches show: it decides on admission and sizes of batches."""

import statistics
from collections import deque
from collections.abc import Hashable

NUM_SAMPLES = 5  # batches whose median counts: one that was disturbed changes nothing
FIRST_TOKENS = 256  # in a batch, at most, until it is known how long one takes
GROWTH = 0.7  # of the time allowed: a batch that took less may be followed by one twice as large


class Throughput:
    """Seconds per token, and tokens in a batch, for each kind of work.

    Only full batches show what a model can do: others take longer for each token, and count if they
    took less than was expected. Until a full one was seen, the last other batch gives a lower
    bound: a full one takes at least as long.
    """

    def __init__(self, max_tokens: int, max_seconds: float) -> None:
        self._max_tokens, self._max_seconds = max_tokens, max_seconds
        self._limits: dict[Hashable, int] = {}
        self._full: dict[Hashable, deque[float]] = {}
        self._bounds: dict[Hashable, float] = {}

    def observe(self, kind: Hashable, tokens: int, seconds: float) -> None:
        """Learn from a batch; the first of a kind, which loads and compiles, does not count."""
        limit, full = self.batch_limit(kind), self._full.get(kind)
        if kind not in self._bounds:
            self._bounds[kind] = 0.0
            return
        if full is None and tokens < limit:
            self._bounds[kind] = seconds / self._max_tokens
        elif tokens >= limit or seconds < self.seconds(kind, tokens):
            self._full.setdefault(kind, deque(maxlen=NUM_SAMPLES)).append(seconds / tokens)
        if tokens >= limit:
            if seconds > self._max_seconds:
                self._limits[kind] = max(1, limit // 2)
            elif seconds < GROWTH * self._max_seconds:
                self._limits[kind] = min(limit * 2, self._max_tokens)

    def seconds(self, kind: Hashable, tokens: int) -> float:
        """How long so many tokens take in full batches; 0 if nothing is known."""
        if samples := self._full.get(kind):
            return tokens * statistics.median(samples)
        return tokens * self._bounds.get(kind, 0.0)

    def batch_seconds(self, kind: Hashable) -> float:
        """How long the largest batch takes."""
        return self.seconds(kind, self.batch_limit(kind))

    def batch_limit(self, kind: Hashable) -> int:
        """Tokens of a batch: the more, the faster is each, but it must end in the time allowed."""
        return self._limits.get(kind, min(FIRST_TOKENS, self._max_tokens))
