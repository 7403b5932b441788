"""Who of a batch is still being searched for."""

from collections import defaultdict, deque
from collections.abc import Collection, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, device

from regard.decoding.posting import Reports, send


class Leaving(NamedTuple):
    """Who leaves a batch, and who stays."""

    rows: list[int]
    """Numbers of the sentences that leave."""
    gone: Tensor  # (B',) their places in the batch
    kept: Tensor  # (B'',) those of all others


class Attendance:
    """Which sentences of a batch are done, as the host knows it: `late` by some steps.

    One that is done may stay for a while, but what it says counts no more. So it makes no
    difference to any answer how late the host is. Of limits it knows beforehand, and is on time.
    """

    def __init__(self, limits: Sequence[int], where: device, late: int) -> None:
        self.rows = list(range(len(limits)))
        """Numbers of the sentences in the batch, which the device has as `Grid.rows`."""
        self._going_on = set(self.rows)  # those that the host believes not to be done
        self._limits: dict[int, list[int]] = defaultdict(list)
        for row, limit in enumerate(limits):
            self._limits[limit].append(row)
        self._where, self._late = where, late
        self._reports, self._reported = Reports(late), deque[list[int]]()

    def cut(self, length: int, unwanted: Collection[int]) -> Tensor | None:
        """Sentences (B,) that end here, whatever they have found: at their limit, or `unwanted`.

        None: no sentence does.
        """
        ending = self._going_on.intersection([*self._limits.get(length, ()), *unwanted])
        if not ending:
            return None
        self._going_on -= ending
        return send([row in ending for row in self.rows], self._where, torch.bool)

    def hear(self, over: Tensor | None) -> Tensor | None:
        """Note that sentences (B,) are `over`; hear, once it is time, who was some steps ago.

        What comes back is what the next step has to know of it; None: that nobody here is.
        """
        assert over is not None  # as a step leaves it
        self._reported.append(self.rows)
        told = self._reports.hear(over)
        if told is not None:
            rows = self._reported.popleft()
            self._going_on.difference_update(rows[place] for place in told.nonzero()[:, 0].tolist())
        return over if self._late or len(self._going_on) < len(self.rows) else None

    def leave(self, crowded: float) -> Leaving | None:
        """Who leaves now: all who are done, as soon as only `crowded` of those here go on."""
        if len(self._going_on) == len(self.rows) or len(self._going_on) > crowded * len(self.rows):
            return None
        gone = [place for place, row in enumerate(self.rows) if row not in self._going_on]
        kept = [place for place, row in enumerate(self.rows) if row in self._going_on]
        leaving = Leaving(
            [self.rows[place] for place in gone],
            send(gone, self._where),
            send(kept, self._where),
        )
        self.rows = [self.rows[place] for place in kept]
        return leaving
