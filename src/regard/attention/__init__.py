"""Attention, once: scores -> mask -> softmax -> mix. Every model of the package goes through it."""
