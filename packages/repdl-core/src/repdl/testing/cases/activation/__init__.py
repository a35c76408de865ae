"""Activations: cases."""
