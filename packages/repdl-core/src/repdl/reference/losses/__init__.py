"""Losses and distances: contract texts as plain Python."""
