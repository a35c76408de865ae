"""Reductions and scans: cases."""
