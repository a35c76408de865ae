"""Losses and distances: cases."""
