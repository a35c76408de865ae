"""Functions of each element."""
