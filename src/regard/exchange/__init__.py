"""Weights and settings in the formats of other toolkits: read and written."""
