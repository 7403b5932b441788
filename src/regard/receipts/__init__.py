"""Where the numbers of the documentation come from, and whether they still do."""
