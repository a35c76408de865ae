"""What every backend is tested with, from inside and outside this project."""

from repdl.testing.cases import Case, cases
from repdl.testing.compare import assert_same_bits, bits, hex_digest
from repdl.testing.inputs import uniform

__all__ = ["Case", "assert_same_bits", "bits", "cases", "hex_digest", "uniform"]
