"""What every backend is tested with, from inside and outside this project."""

from repdl.testing.cases import DOUBLE, EVERY, Case, cases
from repdl.testing.compare import assert_same_bits, bits, hex_digest
from repdl.testing.inputs import uniform
from repdl.testing.run import CONTRACTS, ODD_CONTRACTS, check_golden, check_parity, covers, digests, golden, run, run_on

__all__ = [
    "CONTRACTS",
    "DOUBLE",
    "EVERY",
    "ODD_CONTRACTS",
    "Case",
    "assert_same_bits",
    "bits",
    "cases",
    "check_golden",
    "check_parity",
    "covers",
    "digests",
    "golden",
    "hex_digest",
    "run",
    "run_on",
    "uniform",
]
