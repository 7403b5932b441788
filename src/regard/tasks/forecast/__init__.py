"""Forecasts of series of numbers."""
