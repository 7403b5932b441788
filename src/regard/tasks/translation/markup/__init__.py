"""Tags and placeholders within a text: found, taken out, and put back into its translation."""
