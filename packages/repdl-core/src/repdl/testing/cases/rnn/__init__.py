"""Recurrent cells and layers: cases."""
