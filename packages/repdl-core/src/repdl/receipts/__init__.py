"""Receipts: what a training run computed, step by step, so that anybody can compute it again and compare.

`receipt` writes one while a program runs, `sign` adds signatures, and `verify` executes the program again and names the
first step that differs.
"""

from __future__ import annotations

from repdl.receipts.signing import check_signed, sign, signer_of
from repdl.receipts.statement import Receipt, read
from repdl.receipts.verification import Verdict, verify
from repdl.receipts.watching import receipt

__all__ = ["Receipt", "Verdict", "check_signed", "read", "receipt", "sign", "signer_of", "verify"]
