"""Activations."""
