"""Draws and dropout."""
