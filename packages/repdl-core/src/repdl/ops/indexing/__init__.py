"""Gathering, scattering and sums by index."""
