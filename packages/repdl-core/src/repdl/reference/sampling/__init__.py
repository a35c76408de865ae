"""Draws and dropout: contract texts as plain Python."""
