"""What happens where a program reaches an op of torch that is not reproducible while `repdl.enable()` holds."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from repdl.audit.judge import Verdict, judge
from repdl.audit.place import Modules, current_node, here
from repdl.audit.remedy import remedy
from repdl.audit.report import Row
from repdl.errors import UnsupportedError
from repdl.overrides.torchs import TorchKernel, overload

Function = Callable[..., Any]


class Refusals:
    """Raises, or warns once for each op and line and lets torch compute it."""

    def __init__(self, on_uncovered: str) -> None:
        self._raises = on_uncovered == "raise"

    def met(self, op: Any, reason: str) -> None:
        """A program reached the op."""
        node = current_node()
        place = here(Modules(), node is not None)
        derivative = node.name() if node is not None else ""
        row = Row(str(op), Verdict.REFUSED, reason, place, derivative, remedy(op, place.called, derivative))
        message = f"repdl.enable: not reproducible: {row}"
        if self._raises:
            raise UnsupportedError(message)
        warnings.warn_explicit(message, UserWarning, place.file or "torch", place.line)

    def kernel(self, name: str, device: str, reason: str) -> Function:
        """In place of the kernel of an op that is refused."""
        original = None if self._raises else TorchKernel(overload(name), device)

        def call(keyset: Any, *args: Any, **kwargs: Any) -> Any:
            self.met(overload(name), reason)
            assert original is not None
            return original.call(keyset, args, kwargs)

        return call

    def judged(self, op: Any, original: TorchKernel) -> Function:
        """In place of the kernel of an op that is reproducible for some arguments only."""

        def call(keyset: Any, *args: Any, **kwargs: Any) -> Any:
            result = original.call(keyset, args, kwargs)
            judgement = judge(op, args, kwargs, result)
            if not judgement.verdict.ok:
                self.met(op, judgement.reason)
            return result

        return call


__all__ = ["Refusals"]
