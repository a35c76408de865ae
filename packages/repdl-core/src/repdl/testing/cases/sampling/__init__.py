"""Draws and dropout: cases."""
