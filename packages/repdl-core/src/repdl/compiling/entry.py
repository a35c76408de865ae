"""What torch finds under the name "repdl", once a program asks for that backend: Dynamo is loaded then."""

from __future__ import annotations

from repdl.compiling.backend import compile_graph, is_supported, is_traced
from repdl.compiling.zeros import hold_zeros

if is_supported():
    hold_zeros(is_traced)

__all__ = ["compile_graph"]
