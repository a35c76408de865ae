"""Convolutions: cases."""
