"""Models that look at pictures."""
