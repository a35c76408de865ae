"""The registry of ops: what each op is, and which backend computes it.

op               what an op is, and all of them by name
define           registers an op that backends have kernels of
composite        registers an op that is a formula over others
aten             ops of torch that functions compute
declaration      contract texts and cases that stand beside a registration
implementations  the function that computes an op on a backend
backend          backends: by op, device and dtype
native           implementations made of C++ kernels
autograd         derivatives, at the dispatcher's Autograd key
autocast         dtypes under torch.autocast
named            checks, outputs and derivatives as functions of some arguments
arguments        arguments as ops take them
families         files of ops that share a contract text
plugins          other projects' ops and backends, from entry points
"""

from __future__ import annotations

from repdl.registry import functions
from repdl.registry.arguments import as_float, as_int, as_ints, as_pair, as_row
from repdl.registry.aten import computes
from repdl.registry.autocast import FLOAT32, FLOAT32_ON_CPU, FLOAT32_ON_CUDA, LOWER, Lists
from repdl.registry.composite import composite
from repdl.registry.declaration import DECLARATIONS, CaseSpec, Declaration
from repdl.registry.define import define
from repdl.registry.implementations import implement, implementation, implementations, lookup, undefine
from repdl.registry.op import OPS, IsSlope, Op, in_float64, outputs

__all__ = [
    "DECLARATIONS",
    "FLOAT32",
    "FLOAT32_ON_CPU",
    "FLOAT32_ON_CUDA",
    "LOWER",
    "OPS",
    "CaseSpec",
    "Declaration",
    "IsSlope",
    "Lists",
    "Op",
    "as_float",
    "as_int",
    "as_ints",
    "as_pair",
    "as_row",
    "composite",
    "computes",
    "define",
    "functions",
    "implement",
    "implementation",
    "implementations",
    "in_float64",
    "lookup",
    "outputs",
    "undefine",
]
