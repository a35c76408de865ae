"""Rows of each kernel have the bits of the reference: in registers, in shared memory, and read again.

By packs of 8 and 16 bytes, and by elements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
import torch

import repdl
from repdl.registry import OPS
from repdl.testing import assert_same_bits, uniform

BACKENDS = [name for name, row in repdl.backends().items() if name.startswith("cuda") and not row.error]
pytestmark = pytest.mark.usefixtures("one_stream")
FLOAT, DOUBLE = torch.float32, torch.float64
LENGTHS = {
    "packs": 12, "elements": 13, "two_kept": 4096, "two_again": 4100, "kept": 8192, "again": 8196, "odd_again": 8193,
}  # fmt: skip
"""Of rows of floats, of which up to 8192 are kept, or of two values each 4096; of rows of doubles half of it."""
V1, OTHER = "v1", "dot_chunk=256,sum_lanes=32,sum_block=1024"
"""Contracts: of v1 rows of floats are in registers, of the other one in shared memory, or read again."""
BLOCK = 1024
BORDERS = [
    *(n + more for n in (32, 64, 128, 256, 512, 768, BLOCK, 2 * BLOCK) for more in (-1, 0, 1)),
    *(1, 2, 1000, 6272, 20 * BLOCK, 20 * BLOCK + 2, 32 * BLOCK - 1, 32 * BLOCK, 32 * BLOCK + 1),
]
"""Lengths of rows at which the kernel, or what a thread has of a row, is another one."""
Place = Callable[[list[Any]], Iterable[list[Any]]]
"""Of the arguments of a call, the same ones elsewhere in memory: one call or several."""


def inputs(*shape: int, seed: int = 1, dtype: torch.dtype = FLOAT) -> torch.Tensor:
    return uniform(seed, *shape).to(dtype)


def targets(count: int, classes: int) -> torch.Tensor:
    target = torch.arange(count) * 7 % classes
    target[1] = -100
    return target


def _rows(n: int, dtype: torch.dtype, contract: str, rows: int = 2) -> dict[str, tuple[Any, ...]]:
    """Arguments of ops on rows of n elements, of the ops that have a kernel for the dtype."""

    def made(seed: int = 1) -> torch.Tensor:
        return inputs(rows, n, seed=seed, dtype=dtype)

    statistics = inputs(rows, seed=3, dtype=dtype).abs()
    weight, bias = inputs(n, seed=4, dtype=dtype), inputs(n, seed=5, dtype=dtype)
    ties = made().round(decimals=1)
    of_both = {
        "layer_norm": (made(), [n], weight, bias, 1e-5, contract),
        "layer_norm_backward": (
            made(), made(2), [n], statistics[:, None], statistics[:, None], weight, contract,
        ),
        "rms_norm": (made(), [n], None, 1e-5, contract),
        "rms_norm_backward": (made(), made(2), [n], statistics[:, None], None, contract),
        "nll_loss_backward": (statistics, targets(rows, n), None, statistics[0], n, "none", -100, contract),
        "max_dim": (ties, 1, False),
        "amax": (ties,),
        "amax_backward": (statistics, ties, ties.amax(1)),
        "max": (ties,),
    }  # fmt: skip
    of_floats = {
        "softmax": (made(), 1, contract),
        "log_softmax": (made(), 1, contract),
        "softmax_backward": (made(), made(2), 1, contract),
        "log_softmax_backward": (made(), made(2), 1, contract),
        "cross_entropy": (made(), targets(rows, n), None, "mean", -100, contract),
        "cross_entropy_backward": (
            statistics[0], made(), targets(rows, n), None, statistics[0], statistics, statistics, "sum", -100, contract,
        ),
    }  # fmt: skip
    return of_both | (of_floats if dtype == FLOAT else {})


def _channels(inner: int, dtype: torch.dtype, contract: str) -> dict[str, tuple[Any, ...]]:
    """Arguments of norms of (3, 4, inner)."""
    x, grad = inputs(3, 4, inner, dtype=dtype), inputs(3, 4, inner, seed=2, dtype=dtype)
    weight, bias, mean, spread = (inputs(4, seed=seed, dtype=dtype) for seed in (3, 4, 5, 6))
    groups = inputs(3, 2, seed=7, dtype=dtype)
    return {
        "group_norm": (x, 2, weight, bias, 1e-5, contract),
        "group_norm_backward": (grad, x, 2, groups, groups.abs(), weight, contract),
        "batch_norm": (x, mean, spread.abs(), weight, bias, True, 0.1, 1e-5, contract),
        "batch_norm_backward": (grad, x, weight, mean, spread.abs(), True, contract),
    }


def shifted(argument: Any) -> Any:
    """The same values where no pack of 16 bytes is at its alignment."""
    if not isinstance(argument, torch.Tensor) or not argument.dtype.is_floating_point:
        return argument
    memory = torch.empty(argument.numel() + 1, dtype=argument.dtype, device=argument.device)
    return memory[1:].view(argument.shape).copy_(argument)


def _one_shifted(args: list[Any]) -> Iterator[list[Any]]:
    """Each floating-point tensor by itself among others that are aligned."""
    for i, argument in enumerate(args):
        if isinstance(argument, torch.Tensor) and argument.dtype.is_floating_point:
            yield [*args[:i], shifted(argument), *args[i + 1 :]]


def _compare(made: dict[str, tuple[Any, ...]], backend: str, place: Place) -> None:
    device = "cuda" if backend == "cuda" else "cpu"
    for what, args in made.items():
        op = what.split()[0]
        with repdl.use_backend("reference"):
            expected = OPS[op].overload(*args)
        there = [a.to(device) if isinstance(a, torch.Tensor) else a for a in args]
        for given in place(there):
            with repdl.use_backend(backend):
                found = OPS[op].overload(*given)
            assert_same_bits(found, expected, what)


PLACES: dict[str, Place] = {"aligned": lambda args: [args], "shifted": lambda args: [[*map(shifted, args)]]}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("dtype", [FLOAT, DOUBLE], ids=["float", "double"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_rows__of_a_length(backend: str, dtype: torch.dtype, length: str, place: str) -> None:
    shorter = 1 if dtype == FLOAT or LENGTHS[length] < 100 else 2
    _compare(_rows(LENGTHS[length] // shorter, dtype, OTHER), backend, PLACES[place])


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("length", BORDERS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_rows__in_registers(backend: str, length: int, place: str) -> None:
    """Of short rows more than a CUDA block has, and not a whole number of CUDA blocks."""
    _compare(_rows(length, FLOAT, V1, rows=5 if length <= BLOCK else 2), backend, PLACES[place])


def special(n: int) -> torch.Tensor:
    """Rows with infinities, NaN of other bits than a result's, zeros of both signs, and numbers of all sizes."""
    x = inputs(9, n) * 2.0 ** (torch.arange(n) % 90 - 45)
    x[1, n // 2], x[2, 0], x[3, n - 1] = torch.inf, -torch.inf, torch.nan
    x[4], x[5] = -torch.inf, -0.0
    x[6, ::2] = 0.0
    x.view(torch.int32)[7] = 0x7FC12345
    x[8, 1:] = -torch.inf
    return x


@pytest.mark.parametrize("length", [70, BLOCK, 2 * BLOCK + 77, 33 * BLOCK])
@pytest.mark.parametrize("backend", BACKENDS)
def test_rows__of_special_values(backend: str, length: int) -> None:
    x, grad, target = special(length), special(length).flip(0).flip(1), torch.arange(9) * 7
    made = {
        "softmax": (x, 1, V1),
        "log_softmax": (x, 1, V1),
        "softmax_backward": (grad, x, 1, V1),
        "log_softmax_backward": (grad, x, 1, V1),
        "cross_entropy": (x, target, None, "none", -100, V1),
        "layer_norm": (x, [length], None, x[0], 1e-5, V1),
        "rms_norm": (x, [length], x[0], 1e-5, V1),
        "rms_norm_backward": (grad, x, [length], x[:, :1], x[0], V1),
    }
    _compare(made, backend, PLACES["aligned"])


FAR = 112
"""How far below the largest element of a row an element is whose exp is below every float."""


def far_below(n: int) -> torch.Tensor:
    """Rows of few elements near the largest; the others are far below it, all of a row within some distances."""
    i = torch.arange(n)
    least = [(0, FAR), (50, 62), (58, 70), (66, 74), (70, 78), (78, 86), (84, 96), (96, FAR)]
    rows = [-near - (far - near) * (i / n) for near, far in least]
    return torch.stack([torch.where(i % 7 == 3, -0.37 * (i % 5), row) for row in rows])


@pytest.mark.parametrize("length", [33, 500, BLOCK, 2 * BLOCK + 77, 9000])
@pytest.mark.parametrize("backend", BACKENDS)
def test_rows__of_elements_far_below_the_largest(backend: str, length: int) -> None:
    x, target = far_below(length), torch.arange(8) * 4
    made = {
        "softmax": (x, 1, V1),
        "log_softmax": (x, 1, V1),
        "cross_entropy": (x, target, None, "none", -100, V1),
        "logsumexp": (x, [1], False, V1),
    }
    _compare(made, backend, PLACES["aligned"])


@pytest.mark.parametrize("value", [0.1, 1e30, -1e30, 2.0**-140])
@pytest.mark.parametrize("length", [1, 33, 100, 500, 1000, 2 * BLOCK + 77, 9001])
@pytest.mark.parametrize("backend", BACKENDS)
def test_rows__that_are_constant(backend: str, length: int, value: float) -> None:
    """Norms of rows without a spread, and of sizes whose squares are none: what lies past the end adds nothing."""
    x, grad, weight = torch.full((3, length), value), inputs(3, length), inputs(length, seed=4)
    mean, rstd = torch.full((3, 1), value), torch.full((3, 1), 1e10)
    channels, of_channels = x.view(3, 1, length), grad.view(3, 1, length)
    made = {
        "layer_norm": (x, [length], weight, weight, 1e-20, V1),
        "layer_norm_backward": (grad, x, [length], mean, rstd, weight, V1),
        "layer_norm_backward of another mean": (grad, x, [length], -mean, rstd * 1e28, weight, V1),
        "rms_norm": (x, [length], weight, 1e-20, V1),
        "rms_norm_backward": (grad, x, [length], rstd, weight, V1),
        "group_norm": (channels, 1, weight[:1], None, 1e-20, V1),
        "group_norm_backward": (of_channels, channels, 1, mean, rstd * 1e28, weight[:1], V1),
        "batch_norm_backward": (of_channels, channels, weight[:1], mean[0], rstd[0], True, V1),
    }
    _compare(made, backend, PLACES["aligned"])


CONTRACTS = [
    f"dot_chunk=256,sum_lanes={lanes},sum_block={block}"
    for lanes, block in ((64, 0), (64, 64), (64, 512), (64, 4096), (32, 64), (32, 4096))
]


@pytest.mark.parametrize("length", [63, 700, 1100, 3000])
@pytest.mark.parametrize("contract", CONTRACTS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_rows__of_other_contracts(backend: str, contract: str, length: int) -> None:
    """Rows of one block, and of several, whose blocks are shorter or longer than those of the fast kernels."""
    for rows in (2, 34):
        _compare(_rows(length, FLOAT, contract, rows), backend, PLACES["aligned"])


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("inner", [1, 7, 12])
@pytest.mark.parametrize("dtype", [FLOAT, DOUBLE], ids=["float", "double"])
@pytest.mark.parametrize("contract", [V1, OTHER])
@pytest.mark.parametrize("backend", BACKENDS)
def test_rows__of_channels(backend: str, contract: str, dtype: torch.dtype, inner: int, place: str) -> None:
    _compare(_channels(inner, dtype, contract), backend, PLACES[place])


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("inner", [257, BLOCK // 2, BLOCK, 10 * BLOCK - 1, 10 * BLOCK, 10 * BLOCK + 1])
@pytest.mark.parametrize("backend", BACKENDS)
def test_rows__of_long_channels(backend: str, inner: int, place: str) -> None:
    """Two channels a row, in registers; of the longest the gradients are not."""
    _compare(_channels(inner, FLOAT, V1), backend, PLACES[place])


@pytest.mark.parametrize("dtype", [FLOAT, DOUBLE], ids=["float", "double"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_rows__of_operands_of_which_one_is_shifted(backend: str, dtype: torch.dtype) -> None:
    """Rows that would be read by packs if all operands were aligned."""
    for contract in (V1, OTHER):
        _compare(_rows(LENGTHS["packs"], dtype, contract), backend, _one_shifted)
        _compare(_channels(12, dtype, contract), backend, _one_shifted)
