"""Interpolation, sampling of images, padding and windows: contract texts as plain Python."""
