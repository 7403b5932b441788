"""Models of other toolkits as runs, and back, each held to what the other side computes."""
