"""`torch.compile(model, backend="repdl")`: graphs whose ops are RepDL's, run one by one as they were traced.

`backend` traces and runs them, `checking` refuses what is not reproducible, `parts` makes a forward and a backward
graph, `constants` computes what depends on no input; `state` and `zeros` say what compiled code holds for, and `stance`
which code is compiled while `repdl.enable()` holds. `entry` is what torch finds.
"""

from __future__ import annotations

from repdl.compiling.backend import compile_graph, is_traced

__all__ = ["compile_graph", "is_traced"]
