"""Gathering, scattering and sums by index: contract texts as plain Python."""
