"""Recurrent layers: packed, alone and step by step, one sum a weight, second derivatives, errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch

from repdl import ops
from repdl.errors import DTypeError, ShapeError
from repdl.ops.rnn.recurrent import gru_layer, lstm_layer, rnn_layer
from repdl.testing import assert_same_bits, uniform

SIZES = [5, 5, 4, 2, 2, 1, 1]
LENGTHS = [7, 5, 3, 3, 2]
SIZE, GATES = 9, {"tanh": 1, "relu": 1, "lstm": 4, "projected": 4, "gru": 3}
KINDS = pytest.mark.parametrize("kind", GATES)
Tensors = list[torch.Tensor]


def made(kind: str, sizes: Sequence[int] = SIZES) -> Tensors:
    """input, states, weight, bias, and a projection."""
    gates, width = GATES[kind], 4 if kind == "projected" else SIZE
    states = [uniform(2, sizes[0], width), uniform(3, sizes[0], SIZE)][: 2 if gates == 4 else 1]
    weights = [uniform(4, gates * SIZE, width), uniform(5, gates * SIZE)]
    return [uniform(1, sum(sizes), gates * SIZE), *states, *weights, *([uniform(6, 4, SIZE)] if width == 4 else [])]


def run(kind: str, tensors: Sequence[torch.Tensor], sizes: Sequence[int] = SIZES, reverse: bool = False) -> Any:
    """Outputs, and the last states."""
    if kind in ("tanh", "relu"):
        return rnn_layer(*tensors, sizes, reverse, kind, "v1")
    if kind == "gru":
        return gru_layer(*tensors, sizes, reverse, True, "v1")[:2]
    rest = tensors if kind == "projected" else (*tensors, None)
    return lstm_layer(*rest, sizes, reverse, True, "v1")[:3]


def rows_of(sequence: int, sizes: Sequence[int] = SIZES) -> list[int]:
    """Where the rows of a sequence lie."""
    starts = [sum(sizes[:t]) for t in range(len(sizes))]
    return [start + sequence for start, size in zip(starts, sizes) if size > sequence]


def cell(kind: str, row: torch.Tensor, states: Tensors, weights: Tensors) -> Tensors:
    """One step: the product of the input is there already, that with an identity."""
    eye, zeros = torch.eye(row.shape[-1]), torch.zeros(row.shape[-1])
    if kind in ("tanh", "relu"):
        return [getattr(ops, f"rnn_{kind}_cell")(row, states[0], eye, weights[0], zeros, weights[1])]
    if kind == "gru":
        return [ops.gru_cell(row, states[0], eye, weights[0], zeros, weights[1])]
    return list(ops.lstm_cell(row, (states[0], states[1]), eye, weights[0], zeros, weights[1]))


@KINDS
@pytest.mark.parametrize("reverse", [False, True])
def test_recurrent__packed_alone_and_step_by_step(kind: str, reverse: bool) -> None:
    tensors = made(kind)
    count = 2 if GATES[kind] == 4 else 1
    weights = tensors[1 + count :]
    output, *last = run(kind, tensors, reverse=reverse)
    for s, length in enumerate(LENGTHS):
        rows = rows_of(s)
        assert len(rows) == length
        own = [tensors[0][rows], *(state[s : s + 1] for state in tensors[1 : 1 + count]), *weights]
        alone, *end = run(kind, own, [1] * length, reverse)
        assert_same_bits(alone, output[rows], f"sequence {s}")
        for a, b in zip(end, last, strict=True):
            assert_same_bits(a[0], b[s], f"last of sequence {s}")
        if kind == "projected":
            continue
        states = [state[s] for state in tensors[1 : 1 + count]]
        for row in rows[::-1] if reverse else rows:
            states = cell(kind, tensors[0][row], states, weights)
            assert_same_bits(states[0], output[row], f"row {row}")
        for a, b in zip(states, last, strict=True):
            assert_same_bits(a, b[s])


@KINDS
def test_recurrent__gradients_of_a_sequence_do_not_depend_on_the_others(kind: str) -> None:
    count = 2 if GATES[kind] == 4 else 1

    def gradients(tensors: Tensors, sizes: Sequence[int], grads: Tensors) -> Tensors:
        given = [t.detach().requires_grad_() for t in tensors]
        return list(torch.autograd.grad(run(kind, given, sizes), given[: 1 + count], grads))

    tensors = made(kind)
    grads = [uniform(10 + i, *t.shape) for i, t in enumerate(run(kind, tensors))]
    whole = gradients(tensors, SIZES, grads)
    for s, length in enumerate(LENGTHS):
        rows = rows_of(s)
        own = [tensors[0][rows], *(t[s : s + 1] for t in tensors[1 : 1 + count]), *tensors[1 + count :]]
        alone = gradients(own, [1] * length, [grads[0][rows], *(g[s : s + 1] for g in grads[1:])])
        for a, b in zip(alone, [whole[0][rows], *(g[s : s + 1] for g in whole[1:])], strict=True):
            assert_same_bits(a, b, f"sequence {s}")


@KINDS
@pytest.mark.parametrize("reverse", [False, True])
def test_recurrent__a_weight_is_one_sum_over_all_rows(kind: str, reverse: bool) -> None:
    """As the text says it: the product of the gradients of the sums and of what the steps began with."""
    tensors = [t.requires_grad_() for t in made(kind)]
    output = run(kind, tensors, reverse=reverse)[0]
    grad = uniform(9, *output.shape)
    found = torch.autograd.grad(output, tensors, grad)
    before = torch.empty_like(output)
    for s in range(SIZES[0]):
        rows = rows_of(s)[:: -1 if reverse else 1]
        before[rows] = torch.cat((tensors[1][s : s + 1], output[rows[:-1]]))
    at = 3 if GATES[kind] == 4 else 2
    if kind != "gru":  # there the gradient of the product is another than that of the input
        assert_same_bits(found[at], ops.mm(found[0], before, transA=True))
        assert_same_bits(found[at + 1], ops.sum(found[0], 0))
    else:
        reset = found[0][:, : 2 * SIZE]
        assert_same_bits(found[at][: 2 * SIZE], ops.mm(reset, before, transA=True))
        assert_same_bits(found[at + 1][: 2 * SIZE], ops.sum(reset, 0))


@KINDS
def test_recurrent__second_derivatives(kind: str) -> None:
    """Bits of the first do not depend on whether it is differentiated; the second is that of torch's cells."""
    sizes = [3, 2, 2]
    tensors = made(kind, sizes)

    def derivatives(function: Callable[..., torch.Tensor], given: Tensors, twice: bool) -> tuple[Any, Any]:
        given = [t.requires_grad_() for t in given]
        output = function(given)
        grad = uniform(9, *output.shape).to(output.dtype)
        first = torch.autograd.grad(output, given, grad, create_graph=twice)
        return first, torch.autograd.grad(sum((g * g).sum() for g in first), given) if twice else None

    def layer(given: Tensors) -> torch.Tensor:
        return torch.cat([t.flatten() for t in run(kind, given, sizes)])

    def steps(given: Tensors) -> torch.Tensor:
        count = 2 if GATES[kind] == 4 else 1
        rows, states, (weight, bias, *projection) = given[0], given[1 : 1 + count], given[1 + count :]
        outputs, last, eye = [], [], torch.eye(rows.shape[1], dtype=rows.dtype)
        for part in rows.split(sizes):
            n = part.shape[0]
            last.append([s[n:] for s in states])
            states = [s[:n] for s in states]
            if kind in ("tanh", "relu"):
                states = [getattr(torch, f"rnn_{kind}_cell")(part, states[0], eye, weight, None, bias)]
            elif kind == "gru":
                states = [torch.gru_cell(part, states[0], eye, weight, torch.zeros_like(bias), bias)]
            else:
                gates = (part + torch.nn.functional.linear(states[0], weight, bias)).chunk(4, 1)
                i, f, g, o = gates[0].sigmoid(), gates[1].sigmoid(), gates[2].tanh(), gates[3].sigmoid()
                new = f * states[1] + i * g
                states = [o * new.tanh() @ projection[0].t() if projection else o * new.tanh(), new]
            outputs.append(states[0])
        ends = [torch.cat(parts) for parts in zip(states, *reversed(last))]
        return torch.cat([torch.cat(outputs).flatten(), *(e.flatten() for e in ends)])

    once, _ = derivatives(layer, [t.clone() for t in tensors], False)
    first, second = derivatives(layer, [t.clone() for t in tensors], True)
    for a, b in zip(once, first, strict=True):
        assert_same_bits(a, b)
    expected = derivatives(steps, [t.double() for t in tensors], True)
    for a, e in zip((*first, *second), (t.detach() for t in (*expected[0], *expected[1])), strict=True):
        # Some hundred roundings, each relative to terms that are no larger than the largest.
        assert (a.double() - e).abs().max() <= 2.0**-15 * max(1.0, float(e.abs().max()))


@pytest.mark.parametrize("kind", ["tanh", "relu", "lstm", "gru"])
def test_recurrent__float64(kind: str) -> None:
    for reverse in (False, True):
        tensors = [t.double().requires_grad_() for t in made(kind, [2, 2, 1])]
        function: Callable[..., Any] = lambda *given: run(kind, given, [2, 2, 1], reverse)
        assert torch.autograd.gradcheck(function, tensors, fast_mode=True)
        assert torch.autograd.gradgradcheck(function, tensors, fast_mode=True)


def test_recurrent__what_is_not_saved_does_not_matter() -> None:
    for kind, layer in (("lstm", lstm_layer), ("gru", gru_layer)):
        tensors = [t.requires_grad_() for t in made(kind)]
        given = (*tensors, None) if kind == "lstm" else tensors
        saved, unsaved = (layer(*given, SIZES, False, saves, "v1") for saves in (True, False))
        count = 3 if kind == "lstm" else 2
        for a, b in zip(saved[:count], unsaved[:count], strict=True):
            assert_same_bits(a, b)
        assert all(t.shape[0] == 0 for t in unsaved[count:])
        grad = uniform(9, *saved[0].shape)
        for a, b in zip(*(torch.autograd.grad(of[0], tensors, grad) for of in (saved, unsaved)), strict=True):
            assert_same_bits(a, b)


def test_recurrent__errors() -> None:
    x, h, c, weight, bias = made("lstm")

    def call(input: Any = x, hidden: Any = h, cell: Any = c, w: Any = weight, b: Any = bias, sizes: Any = SIZES) -> Any:
        return lstm_layer(input, hidden, cell, w, b, None, sizes, False, True, "v1")

    for arguments, message in (
        ({"sizes": []}, "at least one step"),
        ({"sizes": [4, 5, 5, 2, 2, 1, 1]}, "do not rise"),
        ({"sizes": [5, 5, 4]}, "sum of batch_sizes"),
        ({"hidden": h[:4]}, r"hidden.shape\[0\] is 4, expected 5"),
        ({"cell": c[:, :8]}, r"cell.shape is \(5, 8\), expected \(5, 9\)"),
        ({"w": weight[:-1]}, r"weight.shape\[0\]"),
        ({"b": bias[:-1]}, r"bias.shape\[0\] is 35, expected 36"),
        ({"input": x[:, :-4]}, r"input.shape\[1\] is 32, expected 36"),
        ({"input": x[0]}, r"input.dim\(\) is 1"),
    ):
        with pytest.raises(ShapeError, match=message):
            call(**arguments)
    with pytest.raises(DTypeError, match="cell.dtype is bfloat16"):
        call(cell=c.bfloat16())
    with pytest.raises(ShapeError, match="nonlinearity is 'sigmoid', expected 'tanh' or 'relu'"):
        rnn_layer(*made("tanh"), SIZES, False, "sigmoid", "v1")
