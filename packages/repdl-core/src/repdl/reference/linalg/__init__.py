"""Products and linear algebra: contract texts as plain Python."""
