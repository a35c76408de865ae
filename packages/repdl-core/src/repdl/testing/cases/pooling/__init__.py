"""Pooling: cases."""
