"""Weights -> pictures: recording attention, changing it, reading alignments off it, drawing it."""
