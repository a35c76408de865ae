"""Receipts: what a training run computed, step by step, so that anybody can compute it again and compare.

`receipt` writes one while a program runs; `verify` executes the program again and names the first step that differs.
"""

from __future__ import annotations

from repdl.receipts.statement import Receipt, read
from repdl.receipts.verification import Verdict, verify
from repdl.receipts.watching import receipt

__all__ = ["Receipt", "Verdict", "read", "receipt", "verify"]
