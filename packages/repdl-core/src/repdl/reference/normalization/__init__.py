"""Normalizations: contract texts as plain Python."""
