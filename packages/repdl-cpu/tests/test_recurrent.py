"""The kernel of recurrent layers has the bits of their formula, step by step on the other kernels.

test_routes.py has the sizes around tiles, test_parity.py the golden cases; here is what is between them: threads,
large weights, strides, sequences that are alone, and what the kernel leaves to the formula.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch

import repdl
import repdl_cpu
from repdl import ops
from repdl.callcache import THREAD, Trace
from repdl.registry import OPS
from repdl.registry.backend import BACKENDS, get_backend
from repdl.testing import assert_same_bits, uniform

GATES = {"lstm_layer": 4, "gru_layer": 3, "rnn_layer": 1}
BACKWARD = "lstm_layer_backward"
KERNELS = *GATES, BACKWARD
LARGE = [
    ([1] * 5, 256),  # threads share the elements of one row
    ([3, 3, 2, 1, 1], 300),
    ([2, 2], 400),  # of a weight in place
    ([70] * 3, 40),  # and rows, where there are few elements
    ([75] * 2, 80),  # in shares that begin within the elements of some rows, and end within those of others
    ([300] * 3, 200),
    ([1] * 6, 520),  # a packed weight in huge pages, and several pieces of k
    ([9, 9, 9], 1050),
]


def arguments(
    op: str, sizes: Sequence[int], size: int, reverse: bool = True, width: int | None = None
) -> tuple[Any, ...]:
    """Those of a layer, of an LSTM with states of `width`, or of its derivative, of which any gates and cells do."""
    if op == BACKWARD:
        gates, hidden, cell, weight, _, projection, *options = arguments("lstm_layer", sizes, size, reverse, width)
        like = torch.empty(len(gates), hidden.shape[1])
        grads = (uniform(7 + i, *t.shape) for i, t in enumerate((like, hidden, cell)))
        saved = uniform(10, *like.shape), uniform(11, len(gates), size), gates
        return *grads, hidden, cell, weight, projection, *saved, *options[:2], options[-1]
    gates, is_lstm, width = GATES[op], op == "lstm_layer", width or size
    x, hidden = uniform(1, sum(sizes), gates * size, scale=2.0), uniform(2, sizes[0], width)
    weights = uniform(4, gates * size, width, scale=2.0**-2), uniform(5, gates * size)
    if not is_lstm:
        return x, hidden, *weights, list(sizes), reverse, "tanh" if gates == 1 else True, "v1"
    projection = uniform(6, width, size) if width != size else None
    return x, hidden, uniform(3, sizes[0], size), *weights, projection, list(sizes), reverse, True, "v1"


def kernel(op: str, args: Sequence[Any]) -> tuple[torch.Tensor, ...]:
    return get_backend("cpu").ops[op](*args)


def formula(op: str, args: Sequence[Any]) -> tuple[torch.Tensor, ...]:
    return BACKENDS.formulas[op](*args)


def kernels(call: Any) -> list[str]:
    """The ops whose native kernels a call runs."""
    table = {id(k): op for (op, _), k in repdl_cpu.isa.native().kernels.items()}
    before, THREAD.trace = THREAD.trace, Trace()
    try:
        call()
        return [table[id(ran.kernel)] for ran in THREAD.trace.kernel_calls]
    finally:
        THREAD.trace = before


@pytest.mark.parametrize("isa", repdl_cpu.supported_isas())
def test_recurrent__threads_and_large_weights(isa: str) -> None:
    before = repdl.settings.threads.state.threads
    for sizes, size in LARGE if isa == repdl_cpu.get_isa() else LARGE[:6]:
        for op, width in (*((op, size) for op in KERNELS), ("lstm_layer", 8), (BACKWARD, 8)):
            args = arguments(op, sizes, size, op != BACKWARD or len(sizes) % 2 == 0, width)
            repdl.set_num_threads(1)
            try:
                with repdl_cpu.use_isa(isa):
                    expected = formula(op, args)
                    for threads in (1, 7):
                        repdl.set_num_threads(threads)
                        assert_same_bits(
                            kernel(op, args), expected, f"{args[1].shape} {sizes} {size} {isa} {threads} threads"
                        )
            finally:
                repdl.settings.threads.state.threads = before


@pytest.mark.parametrize("op", GATES)
def test_recurrent__a_sequence_does_not_depend_on_the_others(op: str) -> None:
    """Whichever tile its row is in, and whether the weight is packed."""
    sizes = [16, 14, 9, 3, 2]
    args = arguments(op, sizes, 35, False)
    states = 2 if op == "lstm_layer" else 1
    whole = kernel(op, args)
    starts = [sum(sizes[:t]) for t in range(len(sizes))]
    for sequence in range(sizes[0]):
        rows = [start + sequence for start, size in zip(starts, sizes) if size > sequence]
        own = [state[sequence : sequence + 1] for state in args[1 : 1 + states]]
        alone = kernel(op, (args[0][rows], *own, *args[1 + states : -4], [1] * len(rows), *args[-3:]))
        assert_same_bits(alone[0], whole[0][rows], f"sequence {sequence}")
        assert_same_bits(alone[1][0], whole[1][sequence], f"last of sequence {sequence}")


@pytest.mark.parametrize("op", KERNELS)
@pytest.mark.parametrize("steps", [1, 6])
def test_recurrent__strides(op: str, steps: int) -> None:
    """Of every argument: columns apart, expanded, and the half of a wider matrix, as of two directions."""
    args = arguments(op, [5] * steps, 19)
    expected = formula(op, args)
    wide = torch.cat((args[0], args[0]), 1).chunk(2, 1)[1]
    assert_same_bits(kernel(op, (wide, *args[1:])), expected)
    apart = [a.repeat_interleave(2, -1)[..., ::2] if isinstance(a, torch.Tensor) else a for a in args]
    assert_same_bits(kernel(op, apart), expected)
    same = (args[0][:1].expand_as(args[0]), args[1][:1].expand_as(args[1]), *args[2:])
    assert_same_bits(
        kernel(op, same), formula(op, [a.contiguous() if isinstance(a, torch.Tensor) else a for a in same])
    )


def test_recurrent__projection_of_no_columns() -> None:
    """Sums of no terms are +0 plus the bias; and cells of no elements."""
    args = list(arguments("lstm_layer", [2] * 6, 5))
    args[1], args[3], args[5] = uniform(2, 2, 0), uniform(4, 20, 0), uniform(6, 0, 5)
    assert_same_bits(kernel("lstm_layer", args), formula("lstm_layer", args))
    args = list(arguments(BACKWARD, [2] * 6, 5))
    args[0], args[1], args[3], args[5] = uniform(1, 12, 0), uniform(2, 2, 0), uniform(3, 2, 0), uniform(4, 20, 0)
    args[6], args[7] = uniform(6, 0, 5), uniform(7, 12, 0)
    assert_same_bits(kernel(BACKWARD, args), formula(BACKWARD, args))
    for op in KERNELS:
        args = list(arguments(op, [2] * 6, 0))
        assert_same_bits(kernel(op, args), formula(op, args))


@pytest.mark.parametrize("op", KERNELS)
def test_recurrent__one_kernel_a_call(op: str) -> None:
    args = arguments(op, [3, 2, 2, 1, 1, 1], 19)
    call = OPS[op].overload
    assert kernels(lambda: call(*args)) == [op]


@pytest.mark.parametrize("op", KERNELS)
def test_recurrent__halves_are_rounded_after_each_op(op: str) -> None:
    """By the formula: the kernel would round once."""
    args = arguments(op, [3, 2, 2, 1, 1, 1], 19)
    for dtype in (torch.bfloat16, torch.float16):
        half = [ops.cast(a, dtype) if isinstance(a, torch.Tensor) else a for a in args]
        result = OPS[op].overload(*half)
        assert_same_bits(result, formula(op, half))
        wide = [ops.cast(a, torch.float32) if isinstance(a, torch.Tensor) else a for a in half]
        assert not torch.equal(result[0], ops.cast(kernel(op, wide)[0], dtype))
        assert op not in kernels(lambda half=half: OPS[op].overload(*half))


def test_recurrent__float64_is_the_formula() -> None:
    args = arguments("rnn_layer", [3, 2, 2, 1, 1, 1], 19)
    wide = [a.double() if isinstance(a, torch.Tensor) else "relu" if a == "tanh" else a for a in args]
    assert_same_bits(OPS["rnn_layer"].overload(*wide), formula("rnn_layer", wide))
    assert "rnn_layer" not in kernels(lambda: OPS["rnn_layer"].overload(*wide))
