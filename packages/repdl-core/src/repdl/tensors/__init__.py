"""Strides of outputs, and memory that overlaps."""
