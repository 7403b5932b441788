"""Models of other toolkits -> runs, and back, if both sides give the same outputs."""
