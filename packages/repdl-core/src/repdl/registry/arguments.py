"""Arguments as ops take them: any number of Python's or numpy's, as torch takes it, or an error that says which."""

from __future__ import annotations

from operator import index
from typing import Any

import torch

from repdl.callcache import do_not_cache
from repdl.dtypes.rounding import as_double
from repdl.errors import check, raise_type


def as_int(op: str, name: str, value: Any) -> int:
    """`value` as an integer: any type with `__index__`, as torch; no bool, no float."""
    if type(value) is int or isinstance(value, torch.SymInt):
        return value  # type: ignore[return-value]
    if isinstance(value, torch.Tensor):
        do_not_cache()
    if not isinstance(value, bool):
        try:
            return index(value)
        except TypeError:
            pass
    raise_type(op, name, value, "an integer")


def as_ints(op: str, name: str, value: Any, expected: str = "integers") -> list[int]:
    """`value` as a list of integers."""
    if not isinstance(value, (list, tuple)):
        raise_type(op, name, value, expected)
    return [as_int(op, f"{name}[{i}]", v) for i, v in enumerate(value)]


def as_pair(op: str, name: str, value: Any) -> list[int]:
    """One integer, or a sequence of one or two, as (height, width)."""
    if not isinstance(value, (list, tuple)):
        one = as_int(op, name, value)
        return [one, one]
    pair = as_ints(op, name, value)
    if len(pair) == 1:
        pair = pair * 2
    check(op, len(pair) == 2, lambda: f"{name} is {value}, expected one integer or two (height, width)")
    return pair


def as_row(op: str, name: str, value: Any, height: int) -> list[int]:
    """An option of a 1-D function, one integer or a sequence of one, as that of images of height 1."""
    if isinstance(value, (list, tuple)):
        check(op, len(value) == 1, lambda: f"{name} is {value}, expected one integer")
        value = value[0]
    return [height, as_int(op, name, value)]


def as_float(op: str, name: str, value: Any) -> float:
    """`value` as a double: a real Python or numpy number; no string, no complex number.

    Raises `ArgumentError` also for an integer beyond all doubles.
    """
    if isinstance(value, (float, torch.SymFloat, torch.SymInt)):
        return value  # type: ignore[return-value]
    if not isinstance(value, (str, bytes, torch.Tensor)):
        try:
            return as_double(value)
        except (TypeError, ValueError, OverflowError):
            pass
    raise_type(op, name, value, "a real number")
