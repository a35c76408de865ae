"""What is particular to adadelta_step: torch's Adadelta, op by op, and forbidden rewrites."""

from __future__ import annotations

from itertools import product

import torch

from repdl import ops
from repdl.testing import assert_same_bits, uniform


def test_adadelta_step__op_by_op() -> None:
    for decay, rho in product((0.0, 0.01), (0.9, 0.5)):
        p, g, v, u = uniform(1, 500), uniform(2, 500), uniform(3, 500).abs(), uniform(4, 500).abs()
        found = [t.clone() for t in (p, v, u)]
        ops.adadelta_step([found[0]], [g], [found[1]], [found[2]], lr=0.5, rho=rho, eps=1e-6, weight_decay=decay)
        g = ops.add(g, p, alpha=decay) if decay else g
        square = ops.addcmul(ops.mul(v, rho), g, g, value=1 - rho)
        delta = ops.mul(ops.div(ops.sqrt(ops.add(u, 1e-6)), ops.sqrt(ops.add(square, 1e-6))), g)
        deltas = ops.addcmul(ops.mul(u, rho), delta, delta, value=1 - rho)
        assert_same_bits(found, [ops.add(p, delta, alpha=-0.5), square, deltas])


def one(p: float, g: float, v: float, u: float, lr: float = 1.0, rho: float = 0.5, eps: float = 0.0) -> list[float]:
    lists = [[torch.tensor([x])] for x in (p, g, v, u)]
    ops.adadelta_step(*lists, lr=lr, rho=rho, eps=eps)
    return [x[0].item() for x in lists]


def test_adadelta_step__forbidden_rewrites() -> None:
    # g * g rounds to 1 + 2**-11 before it is scaled and added: v is 0, not 2**-25.
    assert one(1.0, 1 + 2.0**-12, -(1 + 2.0**-11), 1.0)[2] == 0
    # eps is added inside of the roots.
    assert one(0.0, 2.0**-11, 0.0, 0.0, rho=1.0, eps=2.0**-20)[0] == -(2.0**-11)
    # The mean of deltas is the old one in the quotient.
    assert one(0.0, 1.0, 1.0, 4.0, rho=0.5)[0] == -2.0
    # p + d * -lr is one rounding.
    assert one(1 + 2.0**-11, 1 + 2.0**-12, 1.0, 1.0, lr=1 + 2.0**-12, rho=1.0)[0] == -(2.0**-24)
