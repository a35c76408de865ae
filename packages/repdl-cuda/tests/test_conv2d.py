"""Convolutions across the edges of every tile, slice, chunk and part of k: the reference's bits."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
import torch

import repdl
from repdl.ops.conv._convolution import output_size
from repdl.registry import implementations
from repdl.registry.backend import get_backend
from repdl.testing import assert_same_bits
from repdl.testing.inputs import uniform

BACKENDS = [name for name, row in repdl.backends().items() if name.startswith("cuda") and not row.error]
pytestmark = pytest.mark.usefixtures("one_stream")
MACHINES = (("0", "4"), ("1", "132"), ("2", "16"))
"""Order of threads, and how many multiprocessors there are."""

# n, c, h, w, o, kh, kw, stride, padding, dilation, groups
GEOMETRIES: dict[str, tuple[Any, ...]] = {
    "channels_over_tile": (1, 3, 6, 6, 130, 3, 3, (1, 1), (1, 1), (1, 1), 1),
    "positions_over_tile": (3, 2, 9, 15, 33, 2, 3, (1, 1), (0, 1), (1, 1), 1),
    "taps_over_tile": (1, 15, 5, 6, 9, 3, 3, (1, 1), (1, 1), (1, 1), 1),
    "vectors": (2, 8, 6, 10, 12, 3, 3, (1, 1), (1, 1), (1, 1), 1),
    "k_over_chunks": (2, 61, 4, 5, 34, 3, 3, (1, 1), (1, 1), (1, 1), 1),
    "classes": (2, 5, 13, 11, 7, 4, 5, (3, 2), (2, 3), (2, 3), 1),
    "class_without_taps": (1, 4, 9, 10, 6, 3, 3, (4, 2), (1, 1), (2, 2), 2),
    "groups_of_many": (2, 8, 7, 7, 66, 3, 2, (2, 1), (1, 1), (1, 1), 2),
    "depthwise": (3, 6, 12, 11, 12, 3, 3, (2, 1), (1, 2), (1, 2), 6),
    "few_rows_long_k": (2, 30, 5, 4, 3, 3, 3, (1, 1), (1, 1), (1, 1), 1),
    "one_pixel": (9, 33, 1, 1, 5, 3, 3, (1, 1), (1, 1), (1, 1), 1),
    "pixels": (3, 37, 6, 6, 70, 1, 1, (1, 1), (0, 0), (1, 1), 1),
    "pixels_of_groups": (2, 70, 4, 5, 66, 1, 1, (1, 1), (0, 0), (1, 1), 2),
    "pixels_over_chunks": (1, 530, 4, 4, 33, 1, 1, (1, 1), (0, 0), (1, 1), 1),
    "odd_pixels": (3, 37, 5, 7, 35, 1, 1, (1, 1), (0, 0), (1, 1), 1),
    "padded_pixels": (2, 18, 4, 6, 35, 1, 1, (1, 1), (1, 2), (1, 1), 1),
    "every_other_pixel": (2, 40, 9, 7, 35, 1, 1, (2, 2), (0, 0), (1, 1), 1),
    "most_taps_in_table": (1, 3, 9, 10, 34, 7, 8, (1, 1), (2, 3), (1, 1), 1),
    "more_taps": (1, 3, 10, 9, 34, 8, 8, (1, 1), (2, 3), (1, 1), 1),
    "longest_row_in_table": (2, 5, 3, 20, 34, 1, 16, (1, 1), (0, 3), (1, 1), 1),
    "longer_row": (2, 5, 3, 20, 34, 1, 17, (1, 1), (0, 3), (1, 1), 1),
    "long_k": (6, 2, 30, 31, 3, 2, 2, (1, 1), (1, 1), (1, 1), 1),
}


def arguments(op: str, geometry: tuple[Any, ...], **kind: Any) -> tuple[Any, ...]:
    n, c, h, w, o, kh, kw, stride, padding, dilation, groups = geometry
    out = [output_size(*size) for size in zip((h, w), (kh, kw), stride, padding, dilation)]
    input, weight = uniform(1, n, c, h, w, **kind), uniform(2, o, c // groups, kh, kw, **kind)
    grad = uniform(3, n, o, *out, **kind)
    options = list(stride), list(padding), list(dilation), groups
    if op == "conv2d":
        return input, weight, uniform(4, o, **kind), *options
    if op == "conv2d_grad_input":
        return grad, weight, [h, w], *options
    return grad, input, [kh, kw], *options


def check(backend: str, op: str, args: tuple[Any, ...], contract: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every tile (0: the kernels choose, direct_conv.hpp among them) and thread order against the reference."""
    expected = implementations(get_backend("reference"))[op](*args, contract)
    chosen = get_backend(backend)
    moved = [a.to(chosen.device) if isinstance(a, torch.Tensor) else a for a in args]
    tiles = (0, 32, 64, 128) if args[0].dtype is torch.float32 else (0, 32, 64)
    for tile, (seed, processors) in product(tiles, MACHINES):
        monkeypatch.setenv("REPDL_CUDA_TILE", str(tile))
        monkeypatch.setenv("REPDL_EMULATION_SEED", seed)
        monkeypatch.setenv("REPDL_EMULATION_MULTIPROCESSORS", processors)
        actual = implementations(chosen)[op](*moved, contract).cpu()
        assert_same_bits(actual, expected, f"{op} on {backend}, tile {tile}, seed {seed}, {processors} multiprocessors")


@pytest.mark.parametrize("op", ["conv2d", "conv2d_grad_input", "conv2d_grad_weight"])
@pytest.mark.parametrize("backend", BACKENDS)
class TestConv2d:
    @pytest.mark.parametrize("name", GEOMETRIES)
    def test_conv2d__edges(self, backend: str, op: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        check(backend, op, arguments(op, GEOMETRIES[name]), "v1", monkeypatch)

    @pytest.mark.parametrize("contract", ["sequential", "dot_chunk=7,sum_lanes=64,sum_block=1024"])
    @pytest.mark.parametrize("name", ["classes", "groups_of_many"])
    def test_conv2d__contract(
        self, backend: str, op: str, name: str, contract: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        check(backend, op, arguments(op, GEOMETRIES[name]), contract, monkeypatch)

    @pytest.mark.parametrize("kind", [{"special": True}, {"scale": 2.0**-75}], ids=str)
    def test_conv2d__special_values(
        self, backend: str, op: str, kind: dict[str, Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        check(backend, op, arguments(op, GEOMETRIES["classes"], **kind), "v1", monkeypatch)

    def test_conv2d__float64(self, backend: str, op: str, monkeypatch: pytest.MonkeyPatch) -> None:
        args = [a.double() if isinstance(a, torch.Tensor) else a for a in arguments(op, GEOMETRIES["vectors"])]
        check(backend, op, tuple(args), "v1", monkeypatch)
