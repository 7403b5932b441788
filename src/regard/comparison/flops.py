"""How much computing a step of training is, by counting the products of matrices."""

import numpy as np
from torch.utils.flop_counter import FlopCounterMode

from regard.batching.collate import collate
from regard.batching.plan import plan_once
from regard.batching.stream import fits
from regard.recipes.assemble import Prepared, build_loss
from regard.recipes.run_folder import new_model
from regard.recipes.schema import Recipe

BATCHES, POSITIONS = 4, 256
"""So many batches of so many positions are enough to count, and small enough for a CPU."""


def flops_per_token(recipe: Recipe, prepared: Prepared) -> float:
    """Floating-point operations for each target token that is learned from, on average.

    torch counts those of all products of matrices and convolutions, forward and backward, while
    the loss of some small batches is computed: a multiplication and an addition are two; what is
    done element by element, and the optimizer, are left out. The batches are of evenly spread
    lengths, and hold next to no padding. Of a mixture of experts what runs is counted: the experts
    that were chosen. It is done on the CPU in float64, where torch has no kernels that the count
    would not see into, so that every machine counts the same.
    """
    lengths = prepared.train.lengths()
    fitting = np.flatnonzero(fits(lengths, recipe.training.max_tokens))
    source, target = lengths.source[fitting] + 1, lengths.target[fitting] + 1  # with EOS or BOS
    plan = plan_once(source, target, budget=min(POSITIONS, recipe.training.batch_tokens))
    places = sorted({(2 * number + 1) * len(plan) // (2 * BATCHES) for number in range(BATCHES)})
    model = new_model(recipe, prepared.tokenizers).double().train()
    loss = build_loss(recipe.training)
    num_flops = num_tokens = 0
    for place in places:
        batch = collate(*zip(*prepared.train.take(fitting[plan[place]]), strict=True))
        with FlopCounterMode(display=False) as counter:
            loss(model, batch).minimised.backward()  # type: ignore[no-untyped-call]
        num_flops += counter.get_total_flops()
        num_tokens += batch.num_tokens
    return num_flops / num_tokens
