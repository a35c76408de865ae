"""Normalizations: cases."""
