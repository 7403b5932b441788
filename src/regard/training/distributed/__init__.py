"""Training on several devices: processes, their communication, and how they are started."""
