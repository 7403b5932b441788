"""Attention: scores -> mask -> softmax -> weighted sum; and its masks, positions and KV cache."""
