"""CUDA backend of RepDL: kernels with the bits of the CPU, on every NVIDIA GPU.

Importing this package needs no GPU; importing its module `backends` raises without one, and says why.
"""

from __future__ import annotations

__version__ = "0.1.0"
