"""What is particular to radam_step: torch's RAdam, op by op, and forbidden rewrites."""

from __future__ import annotations

import math
from itertools import product

import torch

from repdl import ops
from repdl.testing import assert_same_bits, uniform


def test_radam_step__op_by_op() -> None:
    decays = ((0.0, False), (0.01, False), (0.01, True))
    for (decay, decoupled), beta1, rect in product(decays, (0.9, 0.1), (0.0, 0.3)):
        for dtype in (torch.float32, torch.float64):
            p, g, m, v = (uniform(i, 500).to(dtype) for i in range(4))
            v = v.abs()
            found = [t.clone() for t in (p, m, v)]
            ops.radam_step(
                *([found[0]], [g], [found[1]], [found[2]]),
                lr=0.05,
                beta1=beta1,
                beta2=0.99,
                eps=1e-8,
                weight_decay=decay,
                rect=rect,
                bias_correction1=0.271,
                bias_correction2=0.0199,
                decoupled_weight_decay=decoupled,
            )
            if decoupled:
                p = ops.mul(p, 1 - 0.05 * decay)
            elif decay:
                g = ops.add(g, p, alpha=decay)
            mean, square = ops.lerp(m, g, 1 - beta1), ops.addcmul(ops.mul(v, 0.99), g, g, value=1 - 0.99)
            update = ops.mul(ops.div(mean, 0.271), 0.05)
            if rect:
                rate = ops.mul(ops.reciprocal(ops.add(ops.sqrt(square), 1e-8)), math.sqrt(0.0199))
                update = ops.mul(ops.mul(update, rate), rect)
            assert_same_bits(found, [ops.add(p, update, alpha=-1.0), mean, square])


def test_radam_step__forbidden_rewrites() -> None:
    def one(p: float, m: float, v: float, lr: float, rect: float, correction1: float = 1.0) -> float:
        lists = [[torch.tensor([x])] for x in (p, 0.0, m, v)]
        ops.radam_step(
            *lists,
            lr=lr,
            beta1=1.0,
            beta2=1.0,
            eps=0.0,
            bias_correction1=correction1,
            bias_correction2=1.0,
            rect=rect,
        )
        return lists[0][0].item()

    # The mean is divided before it is multiplied: it overflows.
    assert one(0.0, 2.0**120, 1.0, 2.0**-20, 0.0, 2.0**-20) == -float("inf")
    # A product with lr is rounded before the difference: 0, not -2**-24.
    assert one(1 + 2.0**-11, 1 + 2.0**-12, 1.0, 1 + 2.0**-12, 0.0) == 0
    # The reciprocal of the root is rounded before its product.
    assert (
        one(0.0, 5.0, 41.0**2, 1.0, 1.0)
        == -(5 * torch.tensor(41.0).reciprocal()).item()
        != -(torch.tensor(5.0) / 41).item()
    )
