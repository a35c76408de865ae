"""What is particular to adamax_step: torch's Adamax, op by op, and forbidden rewrites."""

from __future__ import annotations

from itertools import product

import torch

from repdl import ops
from repdl.testing import assert_same_bits, uniform


def test_adamax_step__op_by_op() -> None:
    for decay, beta1 in product((0.0, 0.01), (0.9, 0.1)):
        for dtype in (torch.float32, torch.float64):
            p, g, m, u = (uniform(i, 500).to(dtype) for i in range(4))
            u = u.abs()
            found = [t.clone() for t in (p, m, u)]
            ops.adamax_step(
                [found[0]], [g], [found[1]], [found[2]], lr=0.5, beta1=beta1, beta2=0.99, eps=1e-8, weight_decay=decay
            )
            g = ops.add(g, p, alpha=decay) if decay else g
            mean, largest = ops.lerp(m, g, 1 - beta1), ops.maximum(ops.mul(u, 0.99), ops.add(ops.abs(g), 1e-8))
            assert_same_bits(found, [ops.addcdiv(p, mean, largest, value=-0.5), mean, largest])


def one(p: float, g: float, m: float, u: float, lr: float = 1.0, beta1: float = 0.5, eps: float = 0.0) -> list[float]:
    lists = [[torch.tensor([x])] for x in (p, g, m, u)]
    ops.adamax_step(*lists, lr=lr, beta1=beta1, beta2=0.5, eps=eps)
    return [x[0].item() for x in lists]


def test_adamax_step__forbidden_rewrites() -> None:
    # eps belongs to the gradient, not to the maximum.
    assert one(0.0, 1.0, 0.0, 8.0, eps=2.0)[3] == 4.0
    assert one(0.0, 1.0, 0.0, 2.0, eps=2.0)[3] == 3.0
    # A NaN in either stays.
    nan = float("nan")
    assert all(x != x for x in (one(0.0, nan, 0.0, 1.0)[3], one(0.0, 1.0, 0.0, nan)[3]))
    # In units of 2**-149, g / 2 + m / 2 = 1.5 + 1 is rounded once, to 2.
    assert one(0.0, 3 * 2.0**-149, 2.0**-148, 1.0)[2] == 2 * 2.0**-149
    # The quotient comes before its product, which is rounded before the sum: 0, not -2**-24.
    assert one(1 + 2.0**-11, 1 + 2.0**-12, 0.0, 2.0, beta1=0.0, lr=1 + 2.0**-12)[0] != 1 + 2.0**-11
    assert one(0.0, 0.0, 2.0**101, 2.0**101, lr=2.0**30)[0] == -(2.0**30)
