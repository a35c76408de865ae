"""Recurrent cells and layers."""
