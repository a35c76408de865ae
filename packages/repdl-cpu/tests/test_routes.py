"""Every route that a kernel can choose is taken on purpose, with the bits of the reference.

Tiles depend on sizes: the loops below go through the numbers of rows and vectors, with ordinary values,
with infinities, NaN and zeros among them, and with products that underflow, which a term too many turns
from -0 into +0. A smaller call is a slice of a larger one's operands, and its outputs a slice of the
larger one's: the reference computes the largest only.

The last test, of the nightly session, compiles the kernels with counters (native/base/routes.hpp) and with small
sizes of all that is tuned (native/base/tuned.hpp), so that small cases go around each loop a second time and each
thread has a share of them. It runs these loops and all cases on that, with 1, 2, 3 and 7 threads, and fails with the
name of each route that was not taken.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from row_loops import SPECIAL, check, elements_of_few_terms, on, rows_of_elements, running, scans, short_rows

import repdl
import repdl_cpu
from repdl.contract import v1
from repdl.registry import OPS
from repdl.registry.backend import BACKENDS, get_backend
from repdl.testing import ODD_CONTRACTS, Case, assert_same_bits, cases, check_golden, covers, run_on, uniform
from repdl.testing.draws import large_draws
from repdl.testing.dtypes import in_dtype

CHUNKS = "dot_chunk=4,sum_lanes=64,sum_block=1024"
LENGTHS = {"v1": 70, "sequential": 1030, CHUNKS: 150}
"""Contract -> terms of a product: a chunk and a rest; a chain in two pieces; three pieces of chunks."""
KINDS = ("values", "special", "underflow")
THREADS = (1, 7)
WIDTH = {"avx512": 16, "avx2": 8}


def operands(kind: str, first: Sequence[int], second: Sequence[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """The operands of a product, contiguous."""
    if kind == "underflow":  # each product is -2**-151, a rounded sum of them -0
        return torch.full(tuple(first), 2.0**-75), torch.full(tuple(second), -(2.0**-76))
    a, b = uniform(1, *first), uniform(2, *second)
    if kind == "special":
        for x, step in ((a, 43), (b, 61)):
            places = torch.arange(min(5, x.numel()), x.numel(), step)
            x.view(-1)[places] = SPECIAL[places % len(SPECIAL)]
    return a, b


@cache
def reference(op: str, make: Callable[..., tuple[Any, ...]], *given: Any) -> Any:
    return on("reference", op, *make(*given))


# ---- Products: rows and vectors of a tile, skinny products, rows in place, blocks, what threads take

ROWS, MOST = 14, 64


def products(kind: str, contract: str) -> tuple[Any, ...]:
    a, b = operands(kind, (ROWS, LENGTHS[contract]), (LENGTHS[contract], MOST))
    return a, b, False, False, contract


def matmul_tiles(kind: str, contract: str, width: int) -> None:
    a, b, *_ = products(kind, contract)
    expected = reference("matmul", products, kind, contract)
    columns_first, columns_last = b.t().contiguous(), a.t().contiguous()
    scattered = b.repeat_interleave(2, 1)[:, ::2]
    for m in range(1, ROWS + 1):
        for n in (1, *(v * width - r for v in range(1, 5) for r in (3, 0))):
            for right in (b, scattered):
                what = f"{m}x{n} of strides {right.stride()} {contract}"
                check("matmul", (a[:m], right[:, :n], False, False, contract), expected[:m, :n], what)
        for n in (width, width + 1, 2 * width - 1, 2 * width, 3 * width + 1):
            right = columns_first[:n]
            check("matmul", (a[:m], right, False, True, contract), expected[:m, :n], f"{m}x{n} trans {contract}")
            left = columns_last[:, :m]
            check("matmul", (left, right, True, True, contract), expected[:m, :n], f"{m}x{n} both {contract}")


def terms(kind: str, contract: str, k: int) -> tuple[Any, ...]:
    a, b = operands(kind, (ROWS, 8), (8, 67))
    return a[:, :k], b[:k].t(), uniform(3, 67), contract


def matmul_rows(kind: str, contract: str, width: int) -> None:
    """Rows of B in place: few terms, with every number of rows; and a bias, with every number of terms."""
    for k in range(1, 9):
        a, b, bias, _ = terms(kind, contract, k)
        expected = reference("linear", terms, kind, contract, k)
        for m in range(1, ROWS + 1):
            for n in (4 * width, 4 * width + 3):
                args = a[:m], b[:n], bias[:n], contract
                check("linear", args, expected[:m, :n], f"{m}x{n} of {k} terms {contract}")
    a, b, bias, _ = biased(kind, contract)
    expected = reference("linear", biased, kind, contract)
    for m in range(1, 9):
        check("linear", (a[:m], b, bias, contract), expected[:m], f"{m} rows, bias {contract}")


def biased(kind: str, contract: str) -> tuple[Any, ...]:
    a, b = operands(kind, (8, LENGTHS[contract]), (LENGTHS[contract], 530))
    return a, b.t(), uniform(3, 530), contract


def matmul_gemv(kind: str) -> None:
    for length in (171, 241, 250, 255, 256, 257, 511, 512, 600):
        contract = "dot_chunk=16,sum_lanes=64,sum_block=1024"
        a, b = operands(kind, (1, length), (9, length))
        expected, bias = reference_row(kind, length, contract), uniform(5, 9)
        for n in (9, 7, 3):  # fewer than a vector has, and more
            check("matmul", (a, b[:n], False, True, contract), expected[:, :n], f"{n} columns, gemv of {length}")
            given = a, b[:n], bias[:n], contract
            check("linear", given, expected[:, :n] + bias[:n], f"{n} columns, gemv of {length} and a bias")


@cache
def reference_row(kind: str, length: int, contract: str) -> torch.Tensor:
    a, b = operands(kind, (1, length), (9, length))
    return on("reference", "matmul", a, b, False, True, contract)


def large(m: int, n: int, k: int) -> None:
    """Blocks and slices of threads."""
    a, b = operands("values", (m, k), (k, n))
    rows, columns = places(m), places(n)
    expected = compared(m, n, k)
    for left, right in ((a, b), (a.t().contiguous().t(), b), (a, b.t().contiguous().t())):
        check_part(left, right, rows, columns, expected)


def places(n: int) -> list[int]:
    """The rows or columns that are compared: all, but of the large product some."""
    return [0, 13, 14, 31, 32, n // 2, n - 1] if n in BLOCKS[-1] else list(range(n))


@cache
def compared(m: int, n: int, k: int) -> torch.Tensor:
    a, b = operands("values", (m, k), (k, n))
    return on("reference", "matmul", a[places(m)], b[:, places(n)], False, False, "v1")


def check_part(a: torch.Tensor, b: torch.Tensor, rows: list[int], columns: list[int], expected: torch.Tensor) -> None:
    actual = on("cpu", "matmul", a, b, False, False, "v1")
    assert_same_bits(actual[rows][:, columns], expected, f"{tuple(a.shape)} by {tuple(b.shape)}")


# ---- Convolutions: channels or positions along the vectors, in place or packed

ONCE = ([1, 1], [0, 0], [1, 1], 1)


def channels_first(kind: str, contract: str) -> tuple[Any, ...]:
    return (*operands(kind, (2, 2, 4, 16), (MOST, 2, 2, 2)), uniform(3, MOST), *ONCE, contract)


def positions_in_place(kind: str, contract: str) -> tuple[Any, ...]:
    return (*operands(kind, (2, 2, 3, MOST + 1), (ROWS, 2, 2, 2)), uniform(3, ROWS), *ONCE, contract)


def pointwise(kind: str, contract: str) -> tuple[Any, ...]:
    return (*operands(kind, (2, LENGTHS[contract], 2, 16), (MOST, LENGTHS[contract], 1, 1)), None, *ONCE, contract)


def one_channel(kind: str, contract: str) -> tuple[Any, ...]:
    return (*operands(kind, (2, 2, 4, 142), (2, 1, 3, 3)), uniform(3, 2), *ONCE[:3], 2, contract)


def small_images(kind: str, contract: str) -> tuple[Any, ...]:
    return (*operands(kind, (9, 3, 3, 4), (20, 3, 2, 2)), uniform(3, 20), *ONCE, contract)


def padded_images(kind: str, contract: str) -> tuple[Any, ...]:
    return (*operands(kind, (9, 3, 3, 3), (20, 3, 3, 3)), None, [1, 1], [1, 1], [1, 1], 1, contract)


def convolutions(kind: str, contract: str, width: int) -> None:
    def slices(make: Callable[..., tuple[Any, ...]], sizes: Sequence[tuple[int, int]]) -> None:
        x, w, bias, *options = make(kind, contract)
        expected = reference("conv2d", make, kind, contract)
        for m, columns in sizes:
            part = x[..., : columns + w.shape[-1] - 1].contiguous()
            args = part, w[:m], None if bias is None else bias[:m], *options
            what = f"{make.__name__} {m} channels, {columns} columns {contract}"
            check("conv2d", args, expected[:, :m, :, :columns], what)

    channels = [n for v in range(1, 5) for n in (v * width - 1, v * width)]
    slices(channels_first, [(m, columns) for m in channels for columns in range(4, 16)])
    slices(pointwise, [(m, columns) for m in channels[1::2] for columns in (4, 5, 9, 13, 14, 15)])
    columns = [width, *(v * width - 1 for v in range(1, 5))]
    slices(positions_in_place, [(m, n) for m in range(1, ROWS + 1) for n in columns])
    slices(small_images, [(20, 2), (20, 3), (7, 1)])
    expected = reference("conv2d", padded_images, kind, contract)
    check("conv2d", padded_images(kind, contract), expected, f"padded images {contract}")
    x, w, bias, *options = one_channel(kind, contract)
    expected = reference("conv2d", one_channel, kind, contract)
    for n in (*(v * width - r for v in range(1, 9) for r in (1, 0)), 8 * width + 3, 140):
        args = x[..., : n + 2].contiguous(), w, bias, *options
        check("conv2d", args, expected[..., :n], f"one channel, {n} columns {contract}")


# ---- Recurrent layers: the weight in place or packed, few rows over several panels, threads that share rows


LAYERS = {"lstm_layer": 4, "gru_layer": 3, "rnn_layer": 1}
BATCHES = [[1], [2] * 3, [5, 2], [1] * 5, [2] * 5, [3, 3, 2, 1, 1, 1], [15, 13, 2, 1, 1]]
"""Weight in place, and packed: rows of one tile and of several, that end at different steps."""


def layer(
    op: str, kind: str, sizes: list[int], size: int, width: int, reverse: bool, contract: str, saves: bool = True
) -> tuple[Any, ...]:
    """The arguments of a layer of `size` elements, its states of `width` columns."""
    gates, bias = LAYERS[op], uniform(5, LAYERS[op] * size) if size % 2 else None
    hidden, weight = operands(kind, (sizes[0], width), (gates * size, width))
    args = [uniform(1, sum(sizes), gates * size, special=kind == "special"), hidden]
    if op == "lstm_layer":
        args += [uniform(3, sizes[0], size)]
    args += [weight, bias]
    if op == "lstm_layer":
        args += [uniform(6, width, size) if width != size else None]
    return *args, sizes, reverse, ("tanh" if width % 3 else "relu") if op == "rnn_layer" else saves, contract


def layer_backward(kind: str, sizes: list[int], size: int, width: int, reverse: bool, contract: str) -> tuple[Any, ...]:
    """The arguments of the derivative of an LSTM's layer; any gates and cells do."""
    gates, hidden, cell, weight, _, projection, *options = layer(
        "lstm_layer", kind, sizes, size, width, reverse, contract
    )
    grads = uniform(7, len(gates), width), uniform(8, sizes[0], width), uniform(9, sizes[0], size)
    saved = uniform(10, len(gates), width), uniform(11, len(gates), size), gates
    return *grads, hidden, cell, weight, projection, *saved, *options[:2], contract


def check_layer(op: str, *given: Any) -> None:
    """The kernel of a layer against its formula, step by step on the kernels of this file's other tests."""
    args = layer_backward(*given) if op == "lstm_layer_backward" else layer(op, *given)
    assert_same_bits(on("cpu", op, *args), BACKENDS.formulas[op](*args), f"{op} {given}")


def layers(kind: str, contract: str, width: int) -> None:
    for n, size in enumerate((1, width, 2 * width - 1, 2 * width, 2 * width + 1, 4 * width + 3)):
        for m, sizes in enumerate(BATCHES):
            for op in LAYERS:
                check_layer(op, kind, sizes, size, size, (n + m) % 2 == 0, contract, m % 3 > 0)
            check_layer("lstm_layer", kind, sizes, size, size + 2, (n + m) % 2 == 1, contract)
            for states in (size, size + 2):
                check_layer("lstm_layer_backward", kind, sizes, size, states, (n + m) % 2 == 1, contract)


# ---- Gradients of weights: columns in registers, runs of pixels in place, packed; split k


def gradient(
    kind: str, contract: str, filters: int, image: tuple[int, ...], kernel: tuple[int, int], dilation: int, groups: int
) -> tuple[Any, ...]:
    n, _, h, w = image
    out = h - dilation * (kernel[0] - 1), w - dilation * (kernel[1] - 1)
    return (*operands(kind, (n, filters, *out), image), [*kernel], [1, 1], [0, 0], [dilation] * 2, groups, contract)


GRADIENTS = [
    *((6, (2, 1, 3 * v + 2, 6), (2 * v - 1, 3), 1, 1) for v in range(1, 9)),  # columns in registers, two runs a vector
    *((6, (2, 1, v + 3, 14), (v, 9), 1, 1) for v in range(1, 9)),  # columns in registers, one run a vector
    *((6, (2, 1, v + 3, 12), (v, 7), 1, 1) for v in range(1, 9)),  # the same in a vector of eight
    (20, (2, 5, 10, 11), (5, 5), 2, 1),  # packed: pieces of half a vector, of a vector, of two
    (20, (2, 11, 7, 8), (3, 3), 2, 1),
    (20, (2, 20, 7, 8), (3, 3), 2, 1),
    (20, (2, 16, 7, 8), (3, 3), 2, 1),  # in place
    (20, (3, 5, 4, 6), (1, 1), 1, 1),  # one pixel
    (18, (2, 18, 7, 6), (4, 4), 1, 18),  # depthwise
    (6, (2, 6, 6, 6), (3, 3), 1, 3),  # groups
]  # fmt: skip


def grad_weights(kind: str, contract: str) -> None:
    for filters, *rest in GRADIENTS:
        grad, *args = gradient(kind, contract, filters, *rest)
        expected = reference("conv2d_grad_weight", gradient, kind, contract, filters, *rest)
        for m in range(1, filters + 1) if filters == 6 and rest[-1] == 1 else (filters,):
            part = grad[:, :m].contiguous()
            check("conv2d_grad_weight", (part, *args), expected[:m], f"{m} of {filters}, {rest} {contract}")


def split_k() -> None:
    """As many splits as the tree has subtrees, on seven threads too, which would share the terms otherwise."""
    for contract in ("v1", CHUNKS, "dot_chunk=10,sum_lanes=16,sum_block=48"):
        given = (contract, 3, (11, 1, 26, 26), (3, 3), 1, 1)
        expected = reference("conv2d_grad_weight", gradient, "values", *given)
        check("conv2d_grad_weight", gradient("values", *given), expected, f"split k {contract}")


# ---- The tests

ISAS = repdl_cpu.supported_isas()
OFTEN = {(kind, "v1", isa) for kind in KINDS for isa in ISAS} | {("values", c, ISAS[0]) for c in LENGTHS}
ALL = [
    pytest.param(kind, contract, isa, marks=() if (kind, contract, isa) in OFTEN else pytest.mark.nightly)
    for kind in KINDS
    for contract in LENGTHS
    for isa in ISAS
]


@pytest.mark.parametrize(("kind", "contract", "isa"), ALL)
def test_routes__bits(kind: str, contract: str, isa: str) -> None:
    width = WIDTH.get(isa, 4)
    for threads in THREADS:
        with running(isa, threads):
            matmul_tiles(kind, contract, width)
            matmul_rows(kind, contract, width)
            convolutions(kind, contract, width)
            grad_weights(kind, contract)
            layers(kind, contract, width)
            if contract == "v1":
                matmul_gemv(kind)


@pytest.mark.parametrize("isa", ISAS)
def test_routes__bits_of_blocks_and_splits(isa: str) -> None:
    for threads in (1, 2, 7):
        with running(isa, threads):
            split_k()
            for m, n, k in BLOCKS if isa != "baseline" else BLOCKS[:-1]:
                large(m, n, k)


@pytest.mark.parametrize("isa", ISAS)
def test_routes__bits_of_rows_of_elements(isa: str) -> None:
    for threads in THREADS:
        with running(isa, threads):
            rows_of_elements()
            elements_of_few_terms()


@pytest.mark.parametrize("isa", ISAS)
def test_routes__bits_of_scans(isa: str) -> None:
    for threads in THREADS:
        with running(isa, threads):
            scans()


@pytest.mark.parametrize("isa", ISAS)
def test_routes__bits_of_rows(isa: str) -> None:
    """Rows with every number of elements in their last vector, and several blocks of them."""
    for n in (*range(1, 35), 63, 64, 65, 127, 128, 129, *BLOCKS_OF_ROWS):
        x, weight, bias, columns = uniform(1, 3, n), uniform(2, n), uniform(3, n), uniform(4, n, 5)
        x[1] = x[1].sort().values  # the largest one last
        one = uniform(5, 1, n, special=True)  # the sum of one element: +0 of -0, the canonical NaN
        infinite = torch.tensor([[float("inf")], [float("-inf")], [1.0]]).expand(3, n).contiguous()
        statistics = torch.ones(3, 1)
        for op, *args in (
            ("softmax", x, 1), ("log_softmax", x, 1), ("sum", x, [1], False), ("exp", x), ("silu", x), ("mul", x, x),
            ("layer_norm", x, [n], weight, bias, 1e-5), ("rms_norm", x, [n], weight, 1e-5),
            ("max_dim", x, 1, False), ("sum", columns, [0], False), ("sum", one, [0], False),
            ("layer_norm_backward", infinite, x, [n], statistics, statistics, weight),
        ):  # fmt: skip
            case = Case(op, f"rows of {n}", lambda args=args: tuple(args))
            with running(isa, 1):
                actual = run_on(case, "v1", "cpu")
            assert_same_bits(actual, run_on(case, "v1", "reference"), f"{case} on {isa}")


BLOCKS_OF_ROWS = [n * v1.sum_block + rest for n, rest in ((1, 63), (1, 64), (1, 193), (2, 0), (3, 65))]
BLOCKS = [(300, 50, 64), (50, 300, 64), (40, 2200, 20), (3, 2200, 20), (50, 1100, 7), (1100, 560, 1100)]
NEVER = {
    # Pieces of a row of at least four positions, as even as they can be, are never shorter (ImageProduct, RunOperand).
    *(f"tile, A in place {rows} {vectors}" for rows in (1, 2, 3) for vectors in (1, 2, 3, 4)),
    *(f"tile: transposed {rows}" for rows in (1, 2, 3)),
    "nearest: doubles 2",  # halves take the formula: an op that moves has its formula compute them
    "threads: nested",  # a guard: no part of a kernel's work calls parallel_for today
    *("adamax_step 2 4", "adamax_step 2 8"),  # its decay is never decoupled
    # Positions of a tile of six rows: other routes are faster with 16 registers (conv/image_plan.hpp).
    *({"tile, A in place 6 1", "tile, A in place 6 2", "tile: transposed 6"} if repdl_cpu.get_isa() == "avx2" else ()),
    "threads: inside a team",  # a guard: Python is in no region of OpenMP (tests/native/pool.cpp is)
    *({"threads: torch's team"} if repdl.backends()["cpu"].details["team"] == "repdl-cpu" else ()),
}


@pytest.mark.nightly
def test_routes__all_are_taken(build: Callable[..., Path], load_module: Callable[[Path], Any], tmp_path: Path) -> None:
    native = Path(__file__).parents[1] / "native"
    units = sorted(path.stem for path in native.glob("*/*.cpp") if path.stem not in ("machine", "module"))
    best = repdl_cpu.get_isa()
    counted = load_module(build(tmp_path, native, units, ["-O1", "-DREPDL_COUNT_ROUTES", "-DREPDL_SMALL_SIZES"]))
    before = repdl_cpu.isa._Current.module
    repdl_cpu.isa._Current.module = counted
    try:
        take_routes(WIDTH.get(best, 4))
    finally:
        repdl_cpu.isa._Current.module = before
    taken = counted.routes()
    assert len(taken) > 100
    missing = {name for name, count in taken.items() if count == 0}
    assert missing - NEVER == set(), f"not taken: {sorted(missing - NEVER)}"


def test_routes__pointwise() -> None:
    pointwise_strides()
    short_rows()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_routes__asgd_before_averages(dtype: torch.dtype) -> None:
    asgd_before_averages(dtype)


def asgd_before_averages(dtype: torch.dtype) -> None:
    """Steps before t0, in which the averages are the parameters."""
    for decay in (0.0, 0.1):
        found = []
        for backend in ("cpu", "reference"):
            lists = [[in_dtype(uniform(seed, 37), dtype)] for seed in (1, 2, 3)]
            on(backend, "asgd_step", *lists, 0.01, 1e-4, 1.0, decay, False)
            found.append([lists[0][0], lists[2][0]])
        for ours, expected in zip(*found):
            assert_same_bits(ours, expected, f"asgd_step, weight_decay {decay}")


def pointwise_strides() -> None:
    """Operands that no loop takes as they are, longer than the blocks that vectors copy."""
    x, y, z = (uniform(seed, 1300, special=True)[::2] for seed in (1, 2, 3))
    for op, *args in (
        ("exp", x),
        ("neg", x),
        ("tan", x),
        ("tan", x.contiguous() * 2.0**20),
        ("gelu_backward", x, y.contiguous(), "none"),
        ("silu_backward", x.contiguous(), y[:1].expand(650)),
        ("mul", x, y, "v1"),
        ("maximum_backward", x, y, z),
    ):
        for dtype in (torch.float32, torch.float64):
            if OPS[op].takes(dtype):
                given = tuple(in_dtype(a, dtype) if isinstance(a, torch.Tensor) else a for a in args)
                check(op, given, on("reference", op, *given), f"strides {dtype}")


def take_routes(width: int) -> None:
    """The loops above and all cases, with one thread and with several, on the module in use."""
    before, torchs = repdl.settings.threads.state.threads, torch.get_num_threads()
    covered = [case for case in cases() if case.op in get_backend("cpu").ops and covers(case, "cpu")]
    odd = [case for case in covered if case.op == "sum"]
    try:
        for threads in THREADS:
            repdl.set_num_threads(threads)
            for contract in LENGTHS:
                matmul_tiles("values", contract, width)
                matmul_rows("values", contract, width)
                convolutions("values", contract, width)
                grad_weights("values", contract)
                layers("values", contract, width)
            matmul_gemv("values")
            pointwise_strides()
            short_rows()
            asgd_before_averages(torch.float32)
            asgd_before_averages(torch.float64)
            split_k()
            rows_of_elements()
            elements_of_few_terms()
            scans()
            for rows in (1000, 400, 200, 80):  # of 4 to 50 terms
                on("cpu", "index_sum", uniform(1, 4000, 1), torch.arange(4000) % rows, rows, "v1")
            for shape, dim in (((65, 5), 0), ((1, 40000), 1)):
                on("cpu", "sum_of_squares", in_dtype(uniform(1, *shape), torch.float64), [dim], False, "v1")
            for op, args, _ in large_draws(300_000):
                on("cpu", op, *args)
            for shape in BLOCKS:
                large(*shape)
            for case in covered:
                ordered = OPS[case.op].has_order
                check_golden(case, "cpu", "sequential" if ordered and threads > 1 else "v1")
            for case in odd:
                run_on(case, ODD_CONTRACTS[0], "cpu")
        for threads in (2, 3):
            repdl.set_num_threads(threads)
            for case in covered:
                if not case.derived:
                    check_golden(case, "cpu", "sequential" if OPS[case.op].has_order and threads > 2 else "v1")
        # Outputs that go past the caches, and a double chain of several pieces.
        on("cpu", "layer_norm", uniform(1, 2048, 1024), [1024], None, None, 1e-5, "v1")
        long = in_dtype(uniform(1, 20, 600), torch.float64)
        on("cpu", "matmul", long, long.t(), False, False, "sequential")
        # On torch's threads, and on more than it has.
        for ours in (2, 3):
            torch.set_num_threads(2)
            repdl.set_num_threads(ours)
            on("cpu", "neg", uniform(1, 1 << 20))
    finally:
        torch.set_num_threads(torchs)
        repdl.settings.threads.state.threads = before
