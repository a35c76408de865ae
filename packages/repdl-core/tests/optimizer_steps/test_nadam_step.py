"""What is particular to nadam_step: torch's NAdam, op by op, and forbidden rewrites."""

from __future__ import annotations

from itertools import product

import torch

from repdl import ops
from repdl.testing import assert_same_bits, uniform


def test_nadam_step__op_by_op() -> None:
    rates = {"bias_correction2": 0.0199, "grad_lr": 0.3, "exp_avg_lr": 0.7}
    for (decay, decoupled), beta1 in product(((0.0, False), (0.01, False), (0.01, True)), (0.9, 0.1)):
        for dtype in (torch.float32, torch.float64):
            p, g, m, v = (uniform(i, 500).to(dtype) for i in range(4))
            v = v.abs()
            found = [t.clone() for t in (p, m, v)]
            ops.nadam_step(
                *([found[0]], [g], [found[1]], [found[2]]),
                **{"lr": 0.5, "beta1": beta1, "beta2": 0.99, "eps": 1e-8, **rates},
                weight_decay=decay,
                decoupled_weight_decay=decoupled,
            )
            if decoupled:
                p = ops.mul(p, 1 - 0.5 * decay)
            elif decay:
                g = ops.add(g, p, alpha=decay)
            mean, square = ops.lerp(m, g, 1 - beta1), ops.addcmul(ops.mul(v, 0.99), g, g, value=1 - 0.99)
            root = ops.add(ops.sqrt(ops.div(square, 0.0199)), 1e-8)
            moved = ops.addcdiv(ops.addcdiv(p, g, root, value=-0.3), mean, root, value=-0.7)
            assert_same_bits(found, [moved, mean, square])


def test_nadam_step__forbidden_rewrites() -> None:
    def one(p: float, g: float, m: float, v: float, grad_lr: float, exp_avg_lr: float, correction: float) -> float:
        lists = [[torch.tensor([x])] for x in (p, g, m, v)]
        ops.nadam_step(
            *lists,
            lr=0.0,
            beta1=1.0,
            beta2=1.0,
            eps=0.0,
            bias_correction2=correction,
            grad_lr=grad_lr,
            exp_avg_lr=exp_avg_lr,
        )
        return lists[0][0].item()

    # The quotient is rounded inside of the root: it overflows.
    assert one(0.0, 1.0, 0.0, 2.0**120, 1.0, 0.0, 2.0**-20) == 0
    # The gradient moves the parameter first: 2**24 + 1 rounds to even, twice.
    assert one(2.0**24, -1.0, -1.0, 1.0, 1.0, 1.0, 1.0) == 2.0**24
