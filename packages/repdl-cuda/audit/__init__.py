"""Audit of compiled CUDA kernels: what nvcc made of them keeps the contract's arithmetic."""
