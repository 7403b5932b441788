"""Models that sort texts into classes."""
