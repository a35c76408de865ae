"""The correctly rounded functions of float64: each ISA's vectors against the reference, which MPFR has checked."""

from __future__ import annotations

import pytest
import torch

import repdl_cpu
from repdl import ops, use_backend
from repdl.testing import assert_same_bits, doubles

NAMES = sorted([*doubles.RANGES, *doubles.TWO_OPERANDS])


def assert_every_isa_has_the_results_of_the_reference(name: str, *operands: torch.Tensor) -> None:
    with use_backend("reference"):
        results = getattr(ops, name)(*operands)
    for isa in repdl_cpu.supported_isas():
        with repdl_cpu.use_isa(isa), use_backend("cpu"):
            assert_same_bits(getattr(ops, name)(*operands), results)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("count", [400, pytest.param(1_000_000, marks=pytest.mark.nightly)])
def test_doubles__special_hard_and_random_arguments(name: str, count: int) -> None:
    """Each binade lies beside the next."""
    assert_every_isa_has_the_results_of_the_reference(name, *map(torch.from_numpy, doubles.arguments(name, count)))


@pytest.mark.parametrize("name, large", [("sin", "0x1.e1dcffca29d4cp+18"), ("cos", "0x1.1b235a45e14eep+19")])
def test_doubles__reduction_of_a_large_argument_beside_small_ones(name: str, large: str) -> None:
    """The reduction of arguments below 2**12 would round this one wrongly, wherever it lies in a vector."""
    operand = torch.linspace(0.1, 3.0, 64, dtype=torch.float64).reshape(8, 8)
    operand.fill_diagonal_(float.fromhex(large))
    assert_every_isa_has_the_results_of_the_reference(name, operand)
