"""Pooling: contract texts as plain Python."""
