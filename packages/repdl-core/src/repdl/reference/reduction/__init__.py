"""Reductions and scans: contract texts as plain Python."""
