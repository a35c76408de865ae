"""Recurrent cells and layers: contract texts as plain Python."""
