"""Corpora of pairs of texts."""
