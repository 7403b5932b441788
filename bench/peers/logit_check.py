"""Checks that a peer's model computes what ours does."""

from collections.abc import Callable

import torch
from torch import Tensor

from regard.batching.collate import collate
from regard.errors import RunError
from regard.models.contracts import AnyModel
from regard.types import AnyBatch

CLOSE = 1e-3
"""How far a logit may be from ours, which are some tens apart: float32 sums in another order."""


@torch.inference_mode()
def check_same_logits(
    model: AnyModel, vocabulary: int, logits_of: Callable[[AnyBatch], Tensor]
) -> None:
    """Raise an error if a peer's logits (M, V) of a made-up batch are not ours."""
    rng = torch.Generator().manual_seed(0)

    def made_up(length: int) -> list[int]:
        return torch.randint(4, vocabulary, (length,), generator=rng).tolist()

    batch = collate([made_up(5), made_up(9)], [made_up(7), made_up(3)])
    ours = model(batch.inputs, batch.given).flatten(0, 1)[batch.positions]  # (M, V)
    far = float((logits_of(batch) - ours).abs().max())
    if not far <= CLOSE:
        raise RunError(
            f"the exported model's logits are up to {far:.3g} from ours, more than {CLOSE:g}: "
            "the peer would be measured at other work; has its version another architecture?"
        )
