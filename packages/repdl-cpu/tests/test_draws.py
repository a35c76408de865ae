"""Draws by the CPU's kernels: known answers of Philox, and the same bits on every ISA with every number of threads."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import repdl
import repdl_cpu
from repdl.registry import OPS, implementations
from repdl.registry.backend import get_backend
from repdl.testing import assert_same_bits
from repdl.testing.draws import large_draws

KNOWN = [
    ("0 0 0 0 0 0", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    (" ".join(["ffffffff"] * 6), "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344 a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
]
"""Counter and key, block: philox4x32-10 of Random123's kat_vectors."""


@pytest.fixture(scope="module", params=repdl_cpu.supported_isas())
def philox(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, program: Callable[..., Path]
) -> Path:
    """native/philox.cpp for an ISA, whose name the program has."""
    return program(tmp_path_factory.mktemp("philox"), "philox", request.param, "-O1")


def test_draws__known_answers(philox: Path) -> None:
    isa = philox.name
    for given, block in KNOWN:
        run = subprocess.run([str(philox), *given.split()], capture_output=True, text=True, check=True)
        lines = [line.strip() for line in run.stdout.splitlines()]
        assert len(lines) == 1 + {"avx512": 8, "avx2": 4}.get(isa, len(lines) - 1) >= 2
        assert set(lines) == {block}


def test_draws__batches_fit_their_buffers(philox: Path) -> None:
    """Batches of every offset, of lengths around the largest one, follow each other and write no word behind it."""
    run = subprocess.run([str(philox)], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout) == (0, ""), run.stdout + run.stderr


N = 200_003
"""More than the shares of seven threads need; about five of so many words are equal to another."""


@pytest.mark.parametrize("number", range(len(large_draws(0))), ids=lambda i: f"{i}_{large_draws(0)[i][0]}")
def test_draws__on_every_isa_with_every_number_of_threads(number: int) -> None:
    op, args, quick = large_draws(N)[number]
    before = repdl.settings.threads.state.threads
    kernel = get_backend("cpu").ops[op]
    expected = implementations(get_backend("reference"))[op](*args) if quick else None
    try:
        for isa in reversed(repdl_cpu.supported_isas()):
            for threads in (1, 2, 3, 7):
                repdl.set_num_threads(threads)
                with repdl_cpu.use_isa(isa):
                    actual = kernel(*args)
                expected = actual if expected is None else expected
                assert_same_bits(actual, expected, f"{op} on {isa} with {threads} threads")
    finally:
        repdl.settings.threads.state.threads = before


def test_draws__permutation_of_keys_of_which_three_begin_alike() -> None:
    """Their first words, of 32 bits, are equal; some of so many numbers are. The keys in order are ascending."""
    n, position = 2**23, torch.tensor([0, 0, 0])
    draw = implementations(get_backend("cpu"))
    first, second = (
        draw["random_words"](torch.empty(n, dtype=torch.int32), position, plane).long() & 0xFFFFFFFF for plane in (0, 1)
    )
    order = draw["random_permutation"](torch.empty(n, dtype=torch.int64), position)
    first, second = first[order], second[order]
    alike = first[1:] == first[:-1]
    assert (alike[1:] & alike[:-1]).any()
    assert ((first[1:] > first[:-1]) | (alike & (second[1:] > second[:-1]))).all()
    assert torch.equal(order.sort().values, torch.arange(n))


def test_draws__those_tried_are_all() -> None:
    drawing = {op.name for op in OPS.values() if "position" in op.host and op.formula is None}
    assert {op for op, _, _ in large_draws(0)} == drawing
    assert {args[0].dtype for op, args, _ in large_draws(0) if op == "dropout"} == {torch.float32, torch.float64}


def test_draws__dropout_of_any_strides() -> None:
    position, x = torch.tensor([5, 0, 2]), torch.arange(9 * 10 * 121.0).reshape(9, 10, 121)
    every_other = torch.empty(9, 20, 121)[:, ::2].copy_(x)
    some = torch.empty(18, 10, 121)[::2].copy_(x)
    columns, middle = x.permute(2, 1, 0).contiguous().permute(2, 1, 0), x.transpose(0, 1).contiguous().transpose(0, 1)
    expected = implementations(get_backend("reference"))["dropout"](x, position, 0.4)
    for strided in (x, columns, middle, every_other, some):
        actual = get_backend("cpu").ops["dropout"](strided, position, 0.4)
        assert_same_bits(actual.contiguous(), expected, str(strided.stride()))
