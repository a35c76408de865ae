"""What is known of torch's collectives, op by op; `tests/distributed` runs them."""

from __future__ import annotations

from typing import Any

import torch

import repdl.distributed
from repdl.audit.collectives import COMPOSED, MOVES, NAMESPACES, REDUCTIONS, is_collective, moves
from repdl.audit.remedy import remedy
from repdl.audit.reproducibility import Reproducibility, classify, unknown
from repdl.overrides.kernels import Found, kernels

NAMES = [name for name in torch._C._dispatch_get_all_op_names() if is_collective(name)]
OTHERS = {"c10d::recv_any_source_"}
"""Ops of `c10d` that are refused."""


def op(name: str) -> Any:
    space, _, rest = name.partition("::")
    packet = getattr(getattr(torch.ops, space), rest.partition(".")[0])
    return getattr(packet, packet.overloads()[0])


def test_enable__knows_each_collective() -> None:
    """A new one of a new torch is refused until somebody has looked at it, and this test names it."""
    spaces = {name.partition("::")[0] for name in torch._C._dispatch_get_all_op_names()}
    assert {space for space in spaces if "c10d" in space} <= NAMESPACES
    plain = {name.partition("::")[2] for name in NAMES if name.startswith("c10d::")}
    assert plain - MOVES - REDUCTIONS.keys() == {name.removeprefix("c10d::") for name in OTHERS}
    assert all(callable(getattr(repdl.distributed, name)) for name in REDUCTIONS.values())


def test_enable__kernels_of_collectives() -> None:
    for name in NAMES:
        space, _, plain = name.partition("::")
        found = [key for _, key, _, _ in kernels("CPU", "raise", [name], Found())]
        computed = torch._C._dispatch_has_computed_kernel_for_dispatch_key(name, "CPU")
        wanted = computed and space not in COMPOSED and plain not in MOVES
        assert ("CPU" in found) == wanted, name


def test_enable__advice_for_collectives() -> None:
    for name in NAMES:
        expected = REDUCTIONS.get(name.partition("::")[2])
        assert remedy(op(name), "gather", "") == (expected and f"repdl.distributed.{expected}"), name
        assert ("nothing is known" not in unknown(name) and "docs/howto/several-processes.md" in unknown(name)) or (
            name in OTHERS
        )
    assert "name the rank" in unknown("c10d::recv_any_source_")


def test_enable__audit_of_collectives() -> None:
    """Without `enable()`: torch's reductions are not reproducible, what moves data is."""
    x = torch.ones(3)
    assert classify(op("c10d::broadcast_"), ([x],), {}, None).reproducibility is Reproducibility.MOVED and moves(
        "c10d::broadcast_"
    )
    assert classify(op("c10d::allreduce_"), ([x],), {}, None).reproducibility is Reproducibility.REFUSED
