"""Batches -> weights: the loss, the optimizer, the one loop, and what it leaves on disk."""
