"""Runs calls of some families on tensors that end, or start, where memory does. Run by test_bounds.py.

Every case, and sizes one below, at and above what kernels work in: vectors of 4, 8 and 16, lanes, panels,
blocks and pages. Outputs are guarded too, and their bits compared with those of a call without guards.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import torch

import repdl_cpu
from conftest import replace_module
from repdl.dtypes import FLOATS_16_BIT
from repdl.registry import OPS
from repdl.registry.backend import get_backend, has_kernel
from repdl.testing import Case, assert_same_bits, cases, covers, run, uniform
from repdl.testing.cases.pointwise.elementwise import EXACT
from repdl.testing.guarded import guarded_outputs, on_guarded
from repdl.testing.inputs import index
from repdl.testing.steps import step_arguments

NEAR = [n for size in (4, 8, 16, 32, 64, 1024) for n in (size - 1, size, size + 1)]
FEW = [3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33]


def products() -> Iterator[tuple[Any, ...]]:
    for m, n, k in product((1, 2, 4, 5, 13, 15), (1, 7, 8, 15, 16, 17, 33), (1, 15, 17, 255, 257)):
        yield uniform(1, m, k), uniform(2, n, k), False, True
        yield uniform(1, k, m), uniform(2, k, n), True, False
    for k in (1023, 1025, 2730, 2731, 4081, 4090, 4095, 4096, 4097):
        yield uniform(1, 1, k), uniform(2, 3, k), False, True


def windows() -> Iterator[tuple[tuple[int, ...], tuple[int, ...], list[Any]]]:
    """(N, C, H, W), (O, C / groups, KH, KW) and options of convolutions."""
    for width, kernel, stride, pad in product(FEW, (1, 2, 3), (1, 2, 3), (0, 1)):
        if width >= kernel:
            for c, o, groups in ((1, 1, 1), (3, 5, 1), (2, 17, 1), (16, 16, 16)):
                weight = o, c // groups, min(kernel, 2), kernel
                yield (1, c, 4, width), weight, [[stride] * 2, [0, pad], [1, 1], groups]
    yield (1, 1, 32, 32), (1, 1, 2, 2), [[1, 1], [0, 0], [1, 1], 1]
    yield (16, 3, 3, 4), (20, 3, 2, 2), [[1, 1], [0, 0], [1, 1], 1]  # packed: the last panel is full
    yield (1, 1, 31, 31), (1, 1, 1, 1), [[2, 2], [0, 0], [1, 1], 1]


def convolutions(op: str) -> Iterator[tuple[Any, ...]]:
    for x, w, options in windows():
        stride, pad, _, _ = options
        out = [(x[2 + i] + 2 * pad[i] - w[2 + i]) // stride[i] + 1 for i in (0, 1)]
        image, weight, grad = uniform(1, *x), uniform(2, *w), uniform(3, x[0], w[0], *out)
        if op == "conv2d":
            yield image, weight, uniform(4, w[0]), *options
        elif op == "conv2d_grad_input":
            yield grad, weight, list(x[2:]), *options
        else:
            yield grad, image, list(w[2:]), *options


def norms(op: str) -> Iterator[tuple[Any, ...]]:
    for rows, n in (*((2, n) for n in NEAR), *((n, 3) for n in NEAR)):
        x, grad = uniform(1, rows, n), uniform(2, rows, n)
        weight, bias, mean, rstd = uniform(3, n), uniform(4, n), uniform(5, rows, 1), uniform(6, rows, 1).abs()
        yield {
            "layer_norm": (x, [n], weight, bias, 1e-5),
            "layer_norm_backward": (grad, x, [n], mean, rstd, weight),
            "rms_norm": (x, [n], weight, 1e-5),
            "rms_norm_backward": (grad, x, [n], rstd, weight),
            "group_norm": (x, 1, weight, bias, 1e-5),
            "group_norm_backward": (grad, x, 1, mean, rstd, weight),
            "batch_norm": (x, uniform(7, n), uniform(8, n).abs(), weight, bias, True, 0.1, 1e-5),
            "batch_norm_backward": (grad, x, weight, uniform(5, n), uniform(6, n).abs(), True),
        }[op]


def rows(*more: Any, of: int = 1) -> Callable[[], Iterator[tuple[Any, ...]]]:
    """`of` tensors of two rows of each length, and other arguments."""
    return lambda: ((*(uniform(i, 2, n) for i in range(of)), *more) for n in NEAR)


def losses(op: str) -> Iterator[tuple[Any, ...]]:
    for n in NEAR:
        x, target = uniform(1, 3, n), index(2, n, 3)
        forward = x, target, None, "mean", -100
        grad, total, greatest, total_exp = uniform(3), uniform(4).abs(), uniform(5, 3), uniform(6, 3).abs()
        yield {
            "cross_entropy": forward,
            "cross_entropy_backward": (grad, x, target, None, total, greatest, total_exp, "mean", -100),
            "nll_loss": forward,
            "nll_loss_backward": (grad, target, None, total, n, "mean", -100),
        }[op]


def steps(op: str) -> Iterator[tuple[Any, ...]]:
    for n in (*NEAR, 4095, 4096, 4097, 12287, 12288, 12289):
        yield step_arguments(op, lambda i, n=n: [uniform(i, n).abs()])


def layers(op: str) -> Iterator[tuple[Any, ...]]:
    """The weight in place and packed; states that are projected to one column more."""
    gates = {"gru_layer": 3, "rnn_layer": 1}.get(op, 4)
    for n, sizes in product(FEW, ([1], [2] * 5, [5, 5, 1, 1, 1])):
        x, bias, options = uniform(1, sum(sizes), gates * n), uniform(5, gates * n), [sizes, n % 2 == 0]
        if op == "lstm_layer_backward":
            rows, batch = sum(sizes), sizes[0]
            given = (uniform(i, count, n + 1) for i, count in ((6, rows), (7, batch), (8, batch), (9, rows)))
            grad, grad_hidden, hidden, output = given
            grad_cell, cell, weight = uniform(10, batch, n), uniform(11, batch, n), uniform(4, 4 * n, n + 1)
            saved = uniform(13, n + 1, n), output, uniform(14, rows, n), x
            yield grad, grad_hidden, grad_cell, hidden, cell, weight, *saved, *options
        elif op == "lstm_layer":
            states = uniform(2, sizes[0], n + 1), uniform(3, sizes[0], n)
            yield x, *states, uniform(4, gates * n, n + 1), bias, uniform(6, n + 1, n), *options, True
        else:
            yield x, uniform(2, sizes[0], n), uniform(4, gates * n, n), bias, *options, "tanh" if gates == 1 else True


def pools() -> Iterator[tuple[Any, ...]]:
    for n in FEW:
        yield uniform(1, 1, 1, 5, n), [3, 3], [1, 1], [1, 1], [1, 1], False


def resampled(op: str) -> Iterator[tuple[Any, ...]]:
    """Images in several groups, of which the last one is not whole, of one side and of two."""
    for sides, images in (((16, 16), 150), ((300,), 120)):
        at = [i for side in sides for i in range(side)]
        yield uniform(1, images, 1, *sides), at, at, [*range(len(sides))], [*sides]


def sums() -> Iterator[tuple[Any, ...]]:
    for n in NEAR:
        yield uniform(1, 3, n), [1], False
        yield uniform(1, n, 3), [0], False
        yield uniform(1, 2, n, 5), [1], False


NORMS = [norm + back for norm in ("layer_norm", "rms_norm", "group_norm", "batch_norm") for back in ("", "_backward")]
LOSSES = [loss + back for loss in ("cross_entropy", "nll_loss") for back in ("", "_backward")]
AWKWARD: dict[str, Callable[[], Iterator[tuple[Any, ...]]]] = {
    "matmul": products,
    **{op: lambda op=op: convolutions(op) for op in ("conv2d", "conv2d_grad_input", "conv2d_grad_weight")},
    **{op: lambda op=op: norms(op) for op in NORMS},
    **{op: lambda op=op: losses(op) for op in LOSSES},
    **{op: lambda op=op: steps(op) for op in OPS if OPS[op].takes_lists},
    **{op: rows(1) for op in ("softmax", "log_softmax")},
    **{f"{op}_backward": rows(1, of=2) for op in ("softmax", "log_softmax")},
    **{op: rows() for op in (*EXACT, "silu", "sqrt", "neg")},
    **{op: rows(of=2) for op in ("add", "div", "maximum", "relu_backward", "silu_backward")},
    "maximum_backward": rows(of=3),
    "gelu": rows("none"),
    "gelu_backward": rows("none", of=2),
    "sum": sums,
    "pow": rows(0.7),
    "cast": rows(torch.bfloat16),
    "max_pool2d": pools,
    **{op: lambda op=op: resampled(op) for op in ("resample", "resample_backward")},
    **{op: lambda op=op: layers(op) for op in ("lstm_layer", "lstm_layer_backward", "gru_layer", "rnn_layer")},
}  # fmt: skip


def fresh(x: Any) -> Any:
    """With lists of tensors copied: a step changes them."""
    if isinstance(x, torch.Tensor):
        return x.clone()
    return type(x)(fresh(y) for y in x) if isinstance(x, (list, tuple)) else x


def awkward(family: str) -> list[Case]:
    mine = {op.name for op in OPS.values() if op.family == family}
    return [
        Case(op, f"awkward {i}", lambda args=args: fresh(args))
        for op, make in AWKWARD.items()
        if op in mine
        for i, args in enumerate(make())
    ]


def main(families: list[str]) -> None:
    replace_module()
    ops = get_backend("cpu").ops
    made = [
        case
        for family in families
        for case in (*cases(family), *awkward(family))
        if covers(case, "cpu")
        and case.op in ops
        and case.derived not in FLOATS_16_BIT
        and has_kernel(get_backend("cpu"), case.op, case.derived or torch.float32)
    ]
    for isa in repdl_cpu.supported_isas():
        with repdl_cpu.use_isa(isa):
            for case in made:
                print(case, "on", isa, flush=True)  # the last of them killed the process
                expected = run(case, "v1", ops[case.op])
                for start in (False, True):
                    given = on_guarded(case, start)
                    with guarded_outputs(start):
                        actual = run(given, "v1", ops[case.op])
                    assert_same_bits(actual, expected, f"{case} on {isa}, guarded")
    print(len(made), "cases")


if __name__ == "__main__":
    main(sys.argv[1:])
