"""What holds for the process, for a thread or for a `with` block."""
