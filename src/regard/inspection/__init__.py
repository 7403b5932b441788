"""Attention weights -> pictures: recording attention, intervening on it, drawing it."""
