"""argv -> all of the above: one file per command, which is read only when the command is given."""
