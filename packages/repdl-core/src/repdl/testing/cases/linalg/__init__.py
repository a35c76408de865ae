"""Products and linear algebra: cases."""
