"""What is particular to rprop_step: torch's Rprop, op by op, and forbidden rewrites."""

from __future__ import annotations

from itertools import product

import torch

from repdl import ops
from repdl.testing import assert_same_bits, uniform


def test_rprop_step__op_by_op() -> None:
    for maximize, (least, most) in product((False, True), ((1e-6, 50.0), (0.3, 0.4))):
        p, g, q, s = uniform(1, 500), uniform(2, 500), uniform(3, 500), uniform(4, 500).abs()
        q[::7] = 0
        found = [t.clone() for t in (p, q, s)]
        sizes = {"etaminus": 0.5, "etaplus": 1.2, "step_size_min": least, "step_size_max": most}
        ops.rprop_step([found[0]], [g], [found[1]], [found[2]], **sizes, maximize=maximize)
        g = ops.neg(g) if maximize else g
        sign = ops.sign(ops.mul(g, q))
        factor = torch.where(sign > 0, 1.2, torch.where(sign < 0, 0.5, 1.0))
        size = ops.clamp(ops.mul(s, factor), least, most)
        g = torch.where(sign < 0, 0.0, g)
        assert_same_bits(found, [ops.addcmul(p, ops.sign(g), size, value=-1), g, size])


def one(p: float, g: float, q: float, s: float, **sizes: float) -> list[float]:
    lists = [[torch.tensor([x])] for x in (p, g, q, s)]
    ops.rprop_step(*lists, **{"etaminus": 0.5, "etaplus": 2.0, "step_size_min": 0.0, "step_size_max": 50.0, **sizes})
    return [x[0].item() for x in lists]


def test_rprop_step__forbidden_rewrites() -> None:
    # The sign is that of the product, which underflows: neither above nor below 0.
    assert one(0.0, 2.0**-80, 2.0**-80, 1.0)[3] == 1.0
    # The factor of a gradient that turned is compared with etaminus as a float: 1, and the others are 0 with it.
    assert one(0.0, 1.0, 0.0, 1.0, etaminus=1 - 2.0**-30)[2] == 0.0
    # An etaminus of 0 is 1 in its place: the gradient stays.
    assert one(0.0, 1.0, -1.0, 1.0, etaminus=2.0**-160)[2:] == [1.0, 1.0]
    # No step is the product of 0 and the size: NaN where that is infinite.
    assert one(0.0, 0.0, 0.0, float("inf"), step_size_max=float("inf"))[0] != 0
    # A NaN has the sign 0.
    nan = float("nan")
    assert one(3.0, nan, 1.0, 1.0)[0] == 3.0 and one(3.0, nan, 1.0, 1.0)[3] == 1.0
