"""argv -> everything: one file per command, which is imported only when the command is run."""
