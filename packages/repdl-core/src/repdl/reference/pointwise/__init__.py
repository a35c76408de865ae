"""Functions of each element: contract texts as plain Python."""
