"""What is particular to asgd_step: torch's ASGD, op by op, and forbidden rewrites."""

from __future__ import annotations

from itertools import product

import torch

from repdl import ops
from repdl.testing import assert_same_bits, uniform


def test_asgd_step__op_by_op() -> None:
    for decay, mu, lambd in product((0.0, 0.01), (1.0, 0.3), (1e-4, 0.5)):
        p, g, a = uniform(1, 500), uniform(2, 500), uniform(3, 500)
        found = [t.clone() for t in (p, a)]
        ops.asgd_step([found[0]], [g], [found[1]], eta=0.1, lambd=lambd, mu=mu, weight_decay=decay)
        g = ops.add(g, p, alpha=decay) if decay else g
        moved = ops.add(ops.mul(p, 1 - lambd * 0.1), g, alpha=-0.1)
        average = moved if mu == 1 else ops.add(a, ops.mul(ops.sub(moved, a), mu))
        assert_same_bits(found, [moved, average])


def one(p: float, g: float, a: float, eta: float = 0.5, lambd: float = 0.0, mu: float = 1.0) -> list[float]:
    lists = [[torch.tensor([x])] for x in (p, g, a)]
    ops.asgd_step(*lists, eta=eta, lambd=lambd, mu=mu)
    return [x[0].item() for x in lists]


def test_asgd_step__forbidden_rewrites() -> None:
    # The parameter is rounded after its decay: half of the smallest number is 0, to even.
    assert one(2.0**-149, 0.0, 0.0, eta=1.0, lambd=0.5)[0] == 0
    # The sum with the gradient is one rounding: -2**-24.
    assert one(1 + 2.0**-11, 1 + 2.0**-12, 0.0, eta=1 + 2.0**-12)[0] == -(2.0**-24)
    # With mu 1 the average is the parameter, where a + (p - a) is not.
    assert one(1.0, 0.0, 2.0**30)[2] == 1.0
    assert one(1.0, 0.0, float("inf"))[2] == 1.0
    # p - a is rounded, and its product with mu: 2**24 + (1 - 2**24) / 2.
    assert one(1.0, 0.0, 2.0**25, mu=0.5)[2] == 2.0**24
