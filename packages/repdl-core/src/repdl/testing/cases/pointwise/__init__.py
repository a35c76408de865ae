"""Functions of each element: cases."""
