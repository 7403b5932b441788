"""Documents -> documents: their text is translated, everything else is copied."""
