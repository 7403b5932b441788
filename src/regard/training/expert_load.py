"""How evenly a model's experts are used."""

from collections.abc import Iterable

import torch
from torch import Tensor

from regard.types import Routing, Site

IDLE_SHARE = 0.1
"""An expert that gets less than this part of a fair share does as good as nothing."""


class ExpertLoad:
    """Sums up routings where they are, on the device, until someone asks."""

    def __init__(self) -> None:
        self._shares: dict[Site, Tensor] = {}  # of each layer (E,)

    def add(self, routings: Iterable[Routing]) -> None:
        """Count one more batch."""
        for site, _, shares in routings:
            before = self._shares.get(site)
            self._shares[site] = shares if before is None else before + shares

    def pop_metrics(self) -> dict[str, float]:
        """What was counted since the last time, and forget it.

        Of each layer of experts: `busiest`, the largest share in units of a fair one, 1 where all
        are used alike; and `idle`, how many experts get less than a tenth of a fair share.
        """
        numbers = {}
        for site, shares in self._shares.items():
            fair = shares / shares.mean()  # (E,)
            busiest, idle = torch.stack([fair.max(), (fair < IDLE_SHARE).sum()]).tolist()
            numbers[f"experts/{site.part}-{site.layer}/busiest"] = busiest
            numbers[f"experts/{site.part}-{site.layer}/idle"] = idle
        self._shares.clear()
        return numbers
