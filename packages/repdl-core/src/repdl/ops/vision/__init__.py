"""Interpolation, sampling of images, padding and windows."""
