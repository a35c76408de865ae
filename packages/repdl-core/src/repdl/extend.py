"""What other projects import to register ops and backends of their own; docs/extending.md walks through it.

Everything here stays as it is within a major version. Cases and the parity suite are in `repdl.testing`, arithmetic of
the reference in `repdl.reference.arithmetic`; all other modules of repdl-core may change.
"""

from __future__ import annotations

from repdl.callcache import cache_calls
from repdl.contract import Contract, contract_name
from repdl.dtypes import ALL, SINGLE, Dtypes
from repdl.errors import check, check_bool, check_dim, check_dtype, check_range, check_size, check_tensor
from repdl.registry import composite, define, implement, implementations, outputs, undefine
from repdl.registry.arguments import as_float, as_int, as_ints
from repdl.registry.backend import Backend
from repdl.registry.native import Native
from repdl.tensors import layout

__all__ = [
    "ALL",
    "SINGLE",
    "Backend",
    "Contract",
    "Dtypes",
    "Native",
    "as_float",
    "as_int",
    "as_ints",
    "cache_calls",
    "check",
    "check_bool",
    "check_dim",
    "check_dtype",
    "check_range",
    "check_size",
    "check_tensor",
    "composite",
    "contract_name",
    "define",
    "implement",
    "implementations",
    "layout",
    "outputs",
    "undefine",
]
