"""The call cache: what a call did is recorded by its signature, and repeated in C for later calls that look the same.

Checks, broadcasting, layouts and the choice of a backend depend on sizes, strides, dtypes, scalars and settings, not on
the values of tensors. So the second call of a signature is traced, and later ones go straight to the kernels. The
function stays the one definition of results and errors: a call that is unusual in any way, or was not recorded, runs
it. With this function:

    @cache_calls
    def gate(x, y):
        return repdl.ops.mul(repdl.ops.sigmoid(x), y)

`gate(torch.ones(2, 3), torch.ones(2, 3))` has the signature "two contiguous float32 tensors of shape (2, 3), without
gradients".

1. The first call runs the function.
2. The second call runs it with an open `Trace`, in which the native backend leaves two kernel calls: `sigmoid` of x,
   with an output, and `mul` of that output and y, with another one. `planner.plan_call` finds where each tensor is:
   x is source 0 and y source 1, the tensors of the call; the outputs are the new tensors, sources 2 and 3. No caller
   sees 2; 3 is the result. The `Plan` says so, and C makes a `Recording` of it.
3. Each later call allocates the result and scratch memory in C and calls both kernels there.

`gate(torch.ones(4, 3), ...)` has another signature, and begins at 1. `GENERATION.advance()` (`repdl.settings`), which
every change of a setting calls, clears the recordings of all functions.

What an op does besides running kernels it says while it is traced: `record_check`, `record_draw`, `record_write`,
`record_change`, `copy_result`; or it calls `do_not_cache`. `REPDL_CALL_CACHE=0` in the environment switches the cache
off; so does an installation without a native backend, or with torch < 2.10. docs/internals/call-cache.md has the rest.
"""

from repdl.callcache.call import (
    allow_shortcuts,
    as_node,
    cache_blocks,
    cache_calls,
    cache_foreach_in_place,
    cache_in_place,
    cache_update,
    cache_variable_scalars,
    guard,
    guard_overlap,
    outcome,
    recorded_node_methods,
    shortcut,
)
from repdl.callcache.extension import c_extension
from repdl.callcache.plan import Outcome, Plan, Result
from repdl.callcache.planner import plan_call, plan_in_place
from repdl.callcache.scalars import VariableScalars, find_variable_scalars
from repdl.callcache.spans import flat, index_of, tensors_of, unique
from repdl.callcache.trace import (
    NOT_READ,
    THREAD,
    Derivative,
    KernelCall,
    Trace,
    ValueRange,
    copy_result,
    do_not_cache,
    record_change,
    record_check,
    record_draw,
    record_write,
    trace_call,
)

__all__ = [
    "NOT_READ",
    "THREAD",
    "Derivative",
    "KernelCall",
    "Outcome",
    "Plan",
    "Result",
    "Trace",
    "ValueRange",
    "VariableScalars",
    "allow_shortcuts",
    "as_node",
    "c_extension",
    "cache_blocks",
    "cache_calls",
    "cache_foreach_in_place",
    "cache_in_place",
    "cache_update",
    "cache_variable_scalars",
    "copy_result",
    "do_not_cache",
    "find_variable_scalars",
    "flat",
    "guard",
    "guard_overlap",
    "index_of",
    "outcome",
    "plan_call",
    "plan_in_place",
    "record_change",
    "record_check",
    "record_draw",
    "record_write",
    "recorded_node_methods",
    "shortcut",
    "tensors_of",
    "trace_call",
    "unique",
]
