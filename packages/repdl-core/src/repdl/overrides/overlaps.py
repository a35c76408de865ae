"""Writing into memory that overlaps itself while `repdl.enable()` holds: refused, as which value stays depends on the
number of threads and on the processor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import _C

from repdl.audit.op_classes import plain_name
from repdl.callcache import guard_overlap
from repdl.dynamo import set_dynamo_skip
from repdl.overrides.refusal import Refusals
from repdl.overrides.torchs import overload
from repdl.tensors.overlap import overlap, overlaps_itself

Function = Callable[..., Any]
_ONE_VALUE = frozenset({"_foreach_zero", "fill", "full", "ones", "zero", "zeros"})
"""By torch's name: ops that write one value everywhere."""


def writes(name: str) -> bool:
    """Whether an op writes elements of its arguments, which may be others than each other."""
    return (
        _C._get_schema(*name.partition(".")[::2]).is_mutable
        and plain_name(name) not in _ONE_VALUE
        and torch.Tag.inplace_view not in overload(name).tags  # sizes and strides alone
    )


def guarded(name: str, kernel: Function, with_keyset: bool, refusals: Refusals) -> Function:
    """A kernel of an op that `writes`, for calls that write no memory which overlaps itself."""
    op = overload(name)
    written = tuple((i, a.name) for i, a in enumerate(op._schema.arguments) if a.alias_info and a.alias_info.is_write)
    checked = _Checked(op, kernel, with_keyset, refusals, written)
    return guard_overlap(kernel, checked, [place + with_keyset for place, _ in written], [name for _, name in written])


@dataclass(frozen=True, eq=False, slots=True)
class _Checked:
    """A kernel that looks first whether it would write memory that overlaps itself."""

    op: Any
    kernel: Function
    with_keyset: bool
    refusals: Refusals
    written: tuple[tuple[int, str], ...]
    """The places and names of the arguments that are written."""

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        reason = next(self._found(args[1:] if self.with_keyset else args, kwargs), None)
        if reason is not None:
            self.refusals.report(self.op, reason, "a .clone() of it")
        return self.kernel(*args, **kwargs)

    def _found(self, given: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[str]:
        """What is wrong with each tensor that is written."""
        for place, name in self.written:
            value = given[place] if place < len(given) else kwargs.get(name)
            for tensor in value if isinstance(value, (list, tuple)) else [value]:
                if isinstance(tensor, torch.Tensor) and not _is_traced(tensor) and overlaps_itself(tensor):
                    yield overlap(name, tensor)


set_dynamo_skip([_Checked.__call__.__code__])


def _is_traced(tensor: torch.Tensor) -> bool:
    """Whether sizes may be symbols; what is traced runs later."""
    return bool(_C._len_torch_dispatch_stack()) and any(isinstance(n, torch.SymInt) for n in tensor.shape)


__all__ = ["guarded", "writes"]
