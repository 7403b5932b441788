"""Models of other toolkits -> runs, and back, if both sides compute the same."""
