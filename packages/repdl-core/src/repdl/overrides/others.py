"""Code that torch's own compilers made, which has other bits, while `repdl.enable()` holds.

What Dynamo compiles for them runs uncompiled (`compiling/stance.py`). Here is what programs compile without Dynamo, or
load: by `torch._inductor.compile`, `compile_fx`, `standalone_compile`, an AOTInductor package; all of it runs in few
classes.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from torch import _C

Report = Callable[[str, str, str], None]
OUTPUT_CODE = "torch._inductor.output_code"
"""The module of `CompiledFxGraph`, which imports all of Dynamo."""
_RUNNERS = [vars(_C._aoti)[name] for name in sorted(vars(_C._aoti)) if name.startswith("AOTIModel")]
"""The classes that load and run packages of AOTInductor."""
_RUNS = [(runner, name) for runner in _RUNNERS for name in ("run", "boxed_run") if hasattr(runner, name)]
_REASON = "its kernels are Inductor's, whose roundings and their order depend on the processor"
_INSTEAD = 'the model as it was before, or torch.compile(model, backend="repdl")'


@contextmanager
def others_refused(report: Report) -> Iterator[None]:
    """Until the end of the block, in all threads, compiled code that is called says so first, whenever it was made.

    TorchScript fuses nothing meanwhile. What it has fused before is not seen.

    Args:
        report: called with a name, the reason for the refusal and what to use instead; raises, or warns and returns.
    """
    with ExitStack() as stack:
        for owner, name in _RUNS:
            stack.enter_context(_reported(owner, name, report))
        for is_on, turn in (
            (_C._jit_llga_enabled, _C._jit_set_llga_enabled),
            (_C._jit_texpr_fuser_enabled, _C._jit_set_texpr_fuser_enabled),
        ):
            stack.callback(turn, is_on())
            turn(False)
        yield


def graphs_refused(report: Report) -> AbstractContextManager[None]:
    """The same for compiled graphs, once their module is imported."""
    return _reported(sys.modules[OUTPUT_CODE].CompiledFxGraph, "__call__", report)


@contextmanager
def _reported(owner: Any, name: str, report: Report) -> Iterator[None]:
    run = getattr(owner, name)

    @functools.wraps(run)
    def called(*args: Any, **kwargs: Any) -> Any:
        report("code of torch._inductor", _REASON, _INSTEAD)
        return run(*args, **kwargs)

    with patch.object(owner, name, called):
        yield


__all__ = ["OUTPUT_CODE", "graphs_refused", "others_refused"]
