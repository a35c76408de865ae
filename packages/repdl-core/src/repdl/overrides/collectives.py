"""The kernels of torch's collectives: those that move data stay torch's, those that reduce are RepDL's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from repdl.audit.collectives import COMPOSED, MOVES, REDUCTIONS, reason
from repdl.overrides.refusal import Refusals

Kernel = tuple[str, str, Callable[..., Any], bool]


def kernels(name: str, key: str, refusals: Refusals) -> Iterator[Kernel]:
    """Those of a collective, which are put at a key below autograd."""
    namespace, _, plain = name.partition("::")
    if namespace in COMPOSED or plain.partition(".")[0] in MOVES:
        return
    if namespace == "c10d" and plain in REDUCTIONS:
        yield name, key, _reducing(plain), False
    else:
        yield name, key, refusals.kernel(name, key, reason(name)), True


def _reducing(name: str) -> Callable[..., Any]:
    from repdl.distributed.collectives import COLLECTIVES, with_work  # not where torch has no distributed
    from repdl.distributed.works import ReductionWork, held

    collective = COLLECTIVES[name]

    def boxed(work: Any) -> Any:
        return (held(work) if isinstance(work, ReductionWork) else work).boxed()

    def call(*args: Any, **kwargs: Any) -> Any:
        return with_work(collective(*args, **kwargs), boxed)

    return call


@contextmanager
def completed() -> Iterator[None]:
    """Until the end of the block `Work.is_completed` says it of works of RepDL, which C++ does not ask."""
    if not torch.distributed.is_available():
        yield
        return
    kind: Any = torch.distributed.Work
    before = kind.is_completed

    def is_completed(work: Any) -> bool:
        if before(work):
            return True
        try:
            return bool(work.get_future().done())
        except RuntimeError:  # a work of torch that has no future
            return False

    kind.is_completed = is_completed
    try:
        yield
    finally:
        kind.is_completed = before


__all__ = ["completed", "kernels"]
