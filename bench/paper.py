"""What Vaswani et al. 2017 say of their base model and its training."""

from bench.peers.contract import ModelShape

BASE = ModelShape(6, 6, 512, 8, 2048, vocabulary=32_000)
STEPS, TOKENS, HOURS = 100_000, 25_000, 12
"""On eight P100s; tokens are those of one side in a step."""


def hours_at(rate: float) -> float:
    """How long their training would take at `rate` target tokens a second."""
    return STEPS * TOKENS / rate / 3600
