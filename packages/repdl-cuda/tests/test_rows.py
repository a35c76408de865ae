"""Rows that are kept and rows that are read again, by packs of 16 bytes and by elements, have the reference's bits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
import torch

import repdl
from repdl.registry import OPS
from repdl.testing import assert_same_bits, uniform

BACKENDS = [name for name, row in repdl.backends().items() if name.startswith("cuda") and not row.error]
FLOAT, DOUBLE = torch.float32, torch.float64
LENGTHS = {
    "packs": 12, "elements": 13, "two_kept": 4096, "two_again": 4100, "kept": 8192, "again": 8196, "odd_again": 8193,
}  # fmt: skip
"""Of rows of floats, of which up to 8192 are kept, or of two values each 4096; of rows of doubles half of it."""
V1 = "v1"
Place = Callable[[list[Any]], Iterable[list[Any]]]
"""Of the arguments of a call, the same ones elsewhere in memory: one call or several."""


def inputs(*shape: int, seed: int = 1, dtype: torch.dtype = FLOAT) -> torch.Tensor:
    return uniform(seed, *shape).to(dtype)


def targets(count: int, classes: int) -> torch.Tensor:
    target = torch.arange(count) * 7 % classes
    target[1] = -100
    return target


def _rows(n: int, dtype: torch.dtype) -> dict[str, tuple[Any, ...]]:
    """Arguments of ops on rows of n elements, of the ops that have a kernel for the dtype."""

    def two(seed: int = 1) -> torch.Tensor:
        return inputs(2, n, seed=seed, dtype=dtype)

    statistics = inputs(2, seed=3, dtype=dtype).abs()
    weight, bias = inputs(n, seed=4, dtype=dtype), inputs(n, seed=5, dtype=dtype)
    ties = two().round(decimals=1)
    of_both = {
        "layer_norm": (two(), [n], weight, bias, 1e-5, V1),
        "layer_norm_backward": (two(), two(2), [n], statistics[:, None], statistics[:, None], weight, V1),
        "rms_norm": (two(), [n], None, 1e-5, V1),
        "rms_norm_backward": (two(), two(2), [n], statistics[:, None], None, V1),
        "nll_loss_backward": (statistics, targets(2, n), None, statistics[0], n, "none", -100, V1),
        "max_dim": (ties, 1, False),
        "amax": (ties,),
        "amax_backward": (statistics, ties, ties.amax(1)),
        "max": (ties,),
    }
    of_floats = {
        "softmax": (two(), 1, V1),
        "log_softmax": (two(), 1, V1),
        "softmax_backward": (two(), two(2), 1, V1),
        "log_softmax_backward": (two(), two(2), 1, V1),
        "cross_entropy": (two(), targets(2, n), None, "mean", -100, V1),
        "cross_entropy_backward": (
            statistics[0], two(), targets(2, n), None, statistics[0], statistics, statistics, "sum", -100, V1,
        ),
    }  # fmt: skip
    return of_both | (of_floats if dtype == FLOAT else {})


def _channels(inner: int, dtype: torch.dtype) -> dict[str, tuple[Any, ...]]:
    """Arguments of norms of (3, 4, inner)."""
    x, grad = inputs(3, 4, inner, dtype=dtype), inputs(3, 4, inner, seed=2, dtype=dtype)
    weight, bias, mean, spread = (inputs(4, seed=seed, dtype=dtype) for seed in (3, 4, 5, 6))
    groups = inputs(3, 2, seed=7, dtype=dtype)
    return {
        "group_norm": (x, 2, weight, bias, 1e-5, V1),
        "group_norm_backward": (grad, x, 2, groups, groups.abs(), weight, V1),
        "batch_norm": (x, mean, spread.abs(), weight, bias, True, 0.1, 1e-5, V1),
        "batch_norm_backward": (grad, x, weight, mean, spread.abs(), True, V1),
    }


def shifted(argument: Any) -> Any:
    """The same values where no pack of 16 bytes is at its alignment."""
    if not isinstance(argument, torch.Tensor) or not argument.dtype.is_floating_point:
        return argument
    memory = torch.empty(argument.numel() + 1, dtype=argument.dtype)
    return memory[1:].view(argument.shape).copy_(argument)


def _one_shifted(args: list[Any]) -> Iterator[list[Any]]:
    """Each floating-point tensor by itself among others that are aligned."""
    for i, argument in enumerate(args):
        if isinstance(argument, torch.Tensor) and argument.dtype.is_floating_point:
            yield [*args[:i], shifted(argument), *args[i + 1 :]]


def _compare(made: dict[str, tuple[Any, ...]], backend: str, place: Place) -> None:
    device = "cuda" if backend == "cuda" else "cpu"
    for op, args in made.items():
        with repdl.use_backend("reference"):
            expected = OPS[op].overload(*args)
        there = [a.to(device) if isinstance(a, torch.Tensor) else a for a in args]
        for given in place(there):
            with repdl.use_backend(backend):
                found = OPS[op].overload(*given)
            assert_same_bits(found, expected, op)


PLACES: dict[str, Place] = {"aligned": lambda args: [args], "shifted": lambda args: [[*map(shifted, args)]]}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("dtype", [FLOAT, DOUBLE], ids=["float", "double"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_rows__of_a_length(backend: str, dtype: torch.dtype, length: str, place: str) -> None:
    shorter = 1 if dtype == FLOAT or LENGTHS[length] < 100 else 2
    _compare(_rows(LENGTHS[length] // shorter, dtype), backend, PLACES[place])


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("inner", [1, 7, 12])
@pytest.mark.parametrize("dtype", [FLOAT, DOUBLE], ids=["float", "double"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_rows__of_channels(backend: str, dtype: torch.dtype, inner: int, place: str) -> None:
    _compare(_channels(inner, dtype), backend, PLACES[place])


@pytest.mark.parametrize("dtype", [FLOAT, DOUBLE], ids=["float", "double"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_rows__of_operands_of_which_one_is_shifted(backend: str, dtype: torch.dtype) -> None:
    """Rows that would be read by packs if all operands were aligned."""
    _compare(_rows(LENGTHS["packs"], dtype), backend, _one_shifted)
    _compare(_channels(12, dtype), backend, _one_shifted)
