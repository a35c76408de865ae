"""Sorting, quantiles and unique values."""
