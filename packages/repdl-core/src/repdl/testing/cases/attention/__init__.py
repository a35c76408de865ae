"""Attention: cases."""
