"""What is particular to adagrad_step: torch's Adagrad, op by op, and forbidden rewrites."""

from __future__ import annotations

from itertools import product

import torch

from repdl import ops
from repdl.testing import assert_same_bits, uniform


def test_adagrad_step__op_by_op() -> None:
    for decay, maximize in product((0.0, 0.01), (False, True)):
        p, given, s = uniform(1, 500), uniform(2, 500), uniform(3, 500).abs()
        q, w = p.clone(), s.clone()
        ops.adagrad_step([q], [given], [w], lr=0.1, eps=1e-10, weight_decay=decay, maximize=maximize)
        g = ops.neg(given) if maximize else given
        g = ops.add(g, p, alpha=decay) if decay else g
        total = ops.addcmul(s, g, g)
        assert_same_bits(w, total)
        assert_same_bits(q, ops.addcdiv(p, g, ops.add(ops.sqrt(total), 1e-10), value=-0.1))


def one(p: float, g: float, s: float, lr: float = 1.0, eps: float = 0.0, weight_decay: float = 0.0) -> list[float]:
    lists = [[torch.tensor([x])] for x in (p, g, s)]
    ops.adagrad_step(*lists, lr=lr, eps=eps, weight_decay=weight_decay)
    return [x[0].item() for x in lists]


def test_adagrad_step__forbidden_rewrites() -> None:
    # g * g rounds to 1 + 2**-11 before it is added: s is 0, not 2**-24.
    assert one(1.0, 1 + 2.0**-12, -(1 + 2.0**-11))[2] == 0
    # The weight decay is fused into the gradient: 2**-24, whose square is 2**-48; 0 if the product is rounded.
    assert one(1 + 2.0**-12, -(1 + 2.0**-11), 0.0, weight_decay=1 + 2.0**-12)[2] == 2.0**-48
    # eps is added to the root.
    assert one(0.0, 2.0**-11, 0.0, eps=2.0**-11)[0] == -0.5
    # The quotient is rounded, then its product with -lr, and then the sum: 0, not -2**-24.
    assert one(1 + 2.0**-11, 1 + 2.0**-12, -(2.0**-11), lr=1 + 2.0**-12)[0] == 0
    # g * -lr, as torch's step on lists begins, would be infinite.
    assert one(0.0, 2.0**60, 0.0, lr=2.0**100)[0] == -(2.0**100)
