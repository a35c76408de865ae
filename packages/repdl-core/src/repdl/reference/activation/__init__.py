"""Activations: contract texts as plain Python."""
