"""Training on several devices at once: the processes, what they exchange, how they are started."""
