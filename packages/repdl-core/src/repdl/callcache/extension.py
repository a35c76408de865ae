"""The C extension that repeats calls: one is enough, whichever backend brings it."""

from __future__ import annotations

import functools
import os
import re
import warnings
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import repdl_contract


@functools.cache
def c_extension() -> Any:
    """The extension module with `Call` and `Recording`; None if there is none, or REPDL_CALL_CACHE is 0."""
    if os.environ.get("REPDL_CALL_CACHE", "1") == "0":
        return None
    for point in entry_points(group="repdl.call"):
        try:
            module = point.load()
        except Exception:  # the backend that it belongs to reports why
            continue
        if not hasattr(module, "Call"):  # of a torch < 2.10
            continue
        if getattr(module, "CALL_ABI", 0) != _call_abi():
            warnings.warn(
                f"repdl: {module.__name__} was built for another repdl-core, so it does not cache calls; build it "
                "again",
                stacklevel=2,
            )
            continue
        module.Call.define_call(_call_function)
        return module
    return None


def _call_abi() -> int:
    """The version that the C++ headers of this repdl-core define."""
    header = Path(repdl_contract.__file__).parent / "include/repdl/python/abi.hpp"
    found = re.search(r"^#define REPDL_CALL_ABI (\d+)$", header.read_text(encoding="utf-8"), re.MULTILINE)
    assert found is not None
    return int(found[1])


def _call_function(self: Any, *args: Any, **kwargs: Any) -> Any:
    """What a call does, for torch.compile, which can't read it in C."""
    return self.__wrapped__(*args, **kwargs)
