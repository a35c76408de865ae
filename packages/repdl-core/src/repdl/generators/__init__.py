"""Generators of random numbers, and the draws that ops are made of."""
