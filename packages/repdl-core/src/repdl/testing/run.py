"""Running cases: on a backend, and against the golden bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from repdl.errors import BackendError
from repdl.registry import OPS, implementation
from repdl.registry.backend import get_backend, has_kernel
from repdl.registry.families import GoldenBits, families, family_of
from repdl.testing.cases import Case
from repdl.testing.compare import assert_same_bits, hex_digest

CONTRACTS = ("v1", "sequential")
"""The contracts that golden bits are kept for."""

ODD_CONTRACTS = ("dot_chunk=10,sum_lanes=16,sum_block=48", "dot_chunk=300,sum_lanes=2,sum_block=0")
"""Contracts that no tile size fits: a kernel that hard-codes the order of v1 fails them."""


def on_device(argument: Any, device: str) -> Any:
    """An argument of an op with its tensors on a device, laid out as they were."""
    if isinstance(argument, list):
        return [on_device(a, device) for a in argument]
    if not isinstance(argument, torch.Tensor) or argument.device.type == device:
        return argument
    elements = argument.untyped_storage().nbytes() // argument.element_size()
    memory = argument.as_strided((elements,), (1,), 0).to(device)
    return memory.as_strided(argument.shape, argument.stride(), argument.storage_offset())


def placed(op: str, args: tuple[Any, ...], device: str) -> list[Any]:
    """The arguments of an op on a device, but for those that the host reads."""
    names = [argument.name for argument in OPS[op].overload._schema.arguments]
    return [a if name in OPS[op].host else on_device(a, device) for name, a in zip(names, args)]


def run(case: Case, contract: str, implementation: Callable[..., Any], device: str = "cpu") -> Any:
    """The outputs of a case: what the implementation returns, or the arguments it changed."""
    args = placed(case.op, case.args(contract), device)
    result = implementation(*args)
    if result is not None:
        return result
    schema = OPS[case.op].overload._schema
    changed = [arg for arg, a in zip(args, schema.arguments) if a.alias_info is not None and a.alias_info.is_write]
    return [tensor for arg in changed for tensor in (arg if isinstance(arg, list) else [arg]) if tensor is not None]


def run_on(case: Case, contract: str, backend: str) -> Any:
    """The outputs of a case on a backend; raises BackendError if it lacks the op."""
    chosen = get_backend(backend)
    function = implementation(chosen, case.op)
    if function is None:
        raise BackendError(f"{case.op}: not implemented by {backend}")
    return run(case, contract, function, chosen.device)


def check_parity(case: Case, backend: str, contract: str = "v1", oracle: str = "reference") -> None:
    """Raise AssertionError unless `backend` gives the oracle's bits for the case."""
    expected, actual = run_on(case, contract, oracle), run_on(case, contract, backend)
    assert_same_bits(actual, expected, f"{case} {contract} on {backend}")


def covers(case: Case, backend: str) -> bool:
    """Whether the backend has kernels for the dtype of the case; a call raises DTypeError if not.

    A case whose arguments cannot be made counts as covered: running it says why.
    """
    try:
        first = case.make()[0]
    except Exception:
        return True
    tensor = (first[0] if first else None) if isinstance(first, list) else first
    if OPS[case.op].formula is not None:
        return True
    return case.op == "cast" or tensor is None or has_kernel(get_backend(backend), case.op, tensor.dtype)


def golden(family: str) -> GoldenBits:
    """The recorded digests of a family: case -> contract -> SHA-256; none where nothing is recorded."""
    return families()[family].golden() or {}


def digests(case: Case, backend: str, contract: str) -> tuple[str, str | None]:
    """The digest of what `backend` gives for the case, and the recorded one."""
    recorded = (family_of(case.op).golden() or {}).get(str(case), {})
    return hex_digest(run_on(case, contract, backend)), recorded.get(contract)


def check_golden(case: Case, backend: str, contract: str) -> None:
    """Raise AssertionError unless `backend` gives the recorded bits for the case."""
    actual, recorded = digests(case, backend, contract)
    assert actual == recorded, f"{case} {contract} on {backend}: digest {actual}, recorded {recorded}"
