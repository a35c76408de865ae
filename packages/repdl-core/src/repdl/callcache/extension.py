"""The C extension that repeats calls: one is enough, whichever backend brings it."""

from __future__ import annotations

import functools
import os
import warnings
from importlib.metadata import entry_points
from typing import Any


@functools.cache
def c_extension() -> Any:
    """The extension module with `Call` and `Recording`, or None: also where REPDL_CALL_CACHE is 0, to find out whether
    a wrong result comes from a call that is repeated."""
    if os.environ.get("REPDL_CALL_CACHE", "1") == "0":
        return None
    for point in entry_points(group="repdl.call"):
        try:
            module = point.load()
        except Exception:  # the backend that it belongs to reports why
            continue
        if not hasattr(module, "Call"):
            continue
        if getattr(module, "KIT", 0) != 5:  # what its types take (repdl/python/call.hpp)
            warnings.warn(
                f"repdl: {module.__name__} was built for an older repdl-core, so it does not cache calls; build it "
                "again",
                stacklevel=2,
            )
            continue
        module.Call.define_call(_traced)
        return module
    return None


def _traced(self: Any, *args: Any, **kwargs: Any) -> Any:
    """What a call does, for torch.compile, which can't read it in C."""
    return self.__wrapped__(*args, **kwargs)
