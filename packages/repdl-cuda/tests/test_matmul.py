"""Products across the edges of every tile, slice, chunk and part of k: the reference's bits."""

from __future__ import annotations

from itertools import product
from math import isqrt

import pytest
import torch

import repdl
from repdl.registry.backend import get_backend
from repdl.testing import assert_same_bits
from repdl.testing.inputs import uniform
from repdl.testing.run import on_device

BACKENDS = [name for name, row in repdl.backends().items() if name.startswith("cuda") and not row.error]
TILES = (32, 64, 128)
MACHINES = (("0", "4"), ("1", "132"), ("2", "16"))
"""Order of threads, and how many multiprocessors there are."""
PROCESSORS = [pytest.param(n, marks=[] if n in (16, 132) else pytest.mark.nightly) for n in (16, 46, 78, 108, 132, 170)]
SHORT = "dot_chunk=1,sum_lanes=64,sum_block=1024"

pytestmark = [pytest.mark.parametrize("backend", BACKENDS), pytest.mark.usefixtures("one_stream")]


def layouts(rows: int, columns: int, x: torch.Tensor) -> dict[str, torch.Tensor]:
    """The same matrix as kernels copy it in different ways: along rows, along columns, in neither."""
    wide = torch.zeros(2 * rows, columns + 3)
    wide[::2, 3:] = x
    return {"rows": x, "columns": x.t().contiguous().t(), "strided": wide[::2, 3:]}


def check(backend: str, a: torch.Tensor, b: torch.Tensor, contract: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every tile and thread order against the reference, on operands of any batch."""
    with repdl.use_backend("reference"):
        expected = repdl.ops.matmul(a, b, contract=contract)
    device = get_backend(backend).device
    for tile, (seed, processors) in product(TILES, MACHINES):
        monkeypatch.setenv("REPDL_CUDA_TILE", str(tile))
        monkeypatch.setenv("REPDL_EMULATION_SEED", seed)
        monkeypatch.setenv("REPDL_EMULATION_MULTIPROCESSORS", processors)
        with repdl.use_backend(backend):
            actual = repdl.ops.matmul(a.to(device), b.to(device), contract=contract).cpu()
        assert_same_bits(actual, expected, f"{backend}, tile {tile}, seed {seed}, {processors} multiprocessors")


@pytest.mark.parametrize("k", [1, 7, 8, 9, 31, 33])
@pytest.mark.parametrize(("m", "n"), [(31, 33), (33, 128), (64, 65), (127, 36), (129, 130)])
def test_matmul__tile_edges(backend: str, m: int, n: int, k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = layouts(m, k, uniform(1, m, k)), layouts(k, n, uniform(2, k, n))
    a, b = list(kinds[0].values()), list(kinds[1].values())
    for i in range(3):
        check(backend, a[i], b[(i + k) % 3], "v1", monkeypatch)


@pytest.mark.parametrize("contract", ["v1", "sequential", "dot_chunk=100,sum_lanes=64,sum_block=1024"])
@pytest.mark.parametrize("k", [255, 256, 257, 263, 512, 769, 1025, 1793])
def test_matmul__chunk_edges(backend: str, k: int, contract: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check(backend, uniform(1, 5, k), uniform(2, k, 12), contract, monkeypatch)


@pytest.mark.parametrize(("k", "contract"), [(300, SHORT), (1500, SHORT), (8200, "v1"), (9000, "v1")])
def test_matmul__parts_of_k(backend: str, k: int, contract: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check(backend, uniform(1, 3, k), uniform(2, k, 5), contract, monkeypatch)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_matmul__special_values(backend: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = uniform(1, 40, 523, special=True).to(dtype), uniform(2, 523, 36, special=True).to(dtype)
    few = torch.ones(40, 1).masked_fill(torch.arange(40)[:, None] % 4 != 0, 0.0).to(dtype)
    check(backend, a, b, "v1", monkeypatch)
    check(backend, a.nan_to_num(1.0, 2.0, -2.0) * few, b, "v1", monkeypatch)


@pytest.mark.parametrize("k", [5, 261, 519])
def test_matmul__underflow_keeps_sign(backend: str, k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Products round to -0, and so do their chains: a slice padded with zeros would give +0."""
    a, b = torch.full((33, k), 2.0**-75), torch.full((k, 4), -(2.0**-76))
    check(backend, a, b, "v1", monkeypatch)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_matmul__batches(backend: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = uniform(1, 3, 1, 33, 270).to(dtype), uniform(2, 2, 270, 4).to(dtype)
    check(backend, a, b, "v1", monkeypatch)
    check(backend, a.transpose(0, 1), b.expand(3, 2, 270, 4).transpose(0, 1), "v1", monkeypatch)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_matmul__items_at_any_address(backend: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole vectors are copied where every matrix of a batch is aligned, not the first alone."""
    device = get_backend(backend).device
    monkeypatch.setenv("REPDL_CUDA_TILE", "32")
    for gap, offset, transposed in product(range(5), range(5), (False, True)):
        items = [uniform(seed, 3 * (40 * 8 + gap) + offset).to(dtype)[offset:] for seed in (1, 2)]
        a, b = (x.view(3, -1)[:, : 40 * 8].view(3, 40, 8) for x in items)
        left, right = (a, b.mT) if transposed else (a.mT, b)
        with repdl.use_backend("reference"):
            expected = repdl.ops.matmul(left, right)
        with repdl.use_backend(backend):
            actual = repdl.ops.matmul(*(on_device(x, device) for x in (left, right))).cpu()
        assert_same_bits(actual, expected, f"{backend}, gaps of {gap}, offset {offset}, transposed {transposed}")


def test_matmul__many_tiles_a_block(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check(backend, uniform(1, 300, 20), uniform(2, 20, 290), "sequential", monkeypatch)
    check(backend, uniform(1, 200, 9).double(), uniform(2, 9, 190).double(), "sequential", monkeypatch)


@pytest.mark.parametrize("processors", PROCESSORS)
def test_matmul__more_tiles_than_blocks(backend: str, processors: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each block of a grid that fills the machine has a second tile, of every size."""
    monkeypatch.setenv("REPDL_EMULATION_MULTIPROCESSORS", str(processors))
    for tile, blocks in ((32, 8), (64, 4), (128, 2)):
        side = tile * (isqrt(processors * blocks) + 1)
        a, b = uniform(1, side, 9), uniform(2, 9, side)
        with repdl.use_backend("reference"):
            expected = repdl.ops.matmul(a, b)
        monkeypatch.setenv("REPDL_CUDA_TILE", str(tile))
        device = get_backend(backend).device
        with repdl.use_backend(backend):
            actual = repdl.ops.matmul(a.to(device), b.to(device)).cpu()
        assert_same_bits(actual, expected, f"{backend}, tile {tile}, {processors} multiprocessors")
