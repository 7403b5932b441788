"""Vectors of words in their context."""
