"""Convolutions: contract texts as plain Python."""
